/* Serve what asv asks its web server for from `data.js`, so that the site opens from a folder:
   browsers let no page of a folder read its neighbours. Stands behind jQuery, before asv.js. */
(function () {
  "use strict";
  var stock = $.ajax;
  $.ajax = function (request) {
    var name = decodeURIComponent(request.url.split("?")[0]);
    if (!Object.prototype.hasOwnProperty.call(window.ASV_DATA, name)) {
      return stock.apply($, arguments);
    }
    var answer = $.Deferred();
    // Later, as a server would: until then all of asv's scripts have set themselves up. A copy,
    // since asv changes what it loads.
    setTimeout(function () {
      answer.resolve(JSON.parse(JSON.stringify(window.ASV_DATA[name])));
    }, 0);
    return answer.promise();
  };
})();
