// Lets asv's page load its data from disk, where a browser refuses requests: each file NAME.json has
// a copy beside it, NAME.json.js, which is a script that calls `offline` with the name and the data.
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
})(jQuery);
