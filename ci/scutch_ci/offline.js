// Lets asv's page load its data from disk, where a browser refuses requests: each file NAME.json has
// a copy beside it, NAME.json.js, which is a script that calls `offline` with the name and the data.
// And shows figures where there is no line to draw yet.
(function ($) {
    "use strict";
    var waiting = {};

    window.offline = function (name, data) {
        (waiting[name] || []).forEach(function (arrived) { arrived(data); });
        delete waiting[name];
    };

    $.ajaxTransport("+json", function (options) {
        var address = options.url.split("?")[0];
        return {
            send: function (headers, complete) {
                var name = decodeURIComponent(address);
                var script = document.createElement("script");
                var done = function (code, text, data) {
                    script.remove();
                    complete(code, text, data);
                };
                (waiting[name] = waiting[name] || []).push(function (data) {
                    done(200, "success", {json: data});
                });
                script.onerror = function () { done(404, "not found"); };
                script.src = address + ".js";
                document.head.appendChild(script);
            },
            abort: function () {}
        };
    });

    // In the grid of all benchmarks a graph with one point is an empty frame: show the figure.
    $(function () {
        var plot = $.plot;
        $.plot = function (place, series, options) {
            var drawn = (series[0].data || []).filter(function (point) { return point[1] !== null; });
            if (!$(place).hasClass("benchmark-plot") || drawn.length !== 1) {
                return plot(place, series, options);
            }
            var name = $(place).attr("id").slice("summarygrid-".length);
            var unit = $.asv.main_json.benchmarks[name].unit;
            $(place).css({display: "grid", placeItems: "center", fontSize: "1.5rem"});
            return $(place).addClass("figure").text($.asv.pretty_unit(drawn[0][1], unit));
        };
        $.extend($.plot, plot);
    });
})(jQuery);
