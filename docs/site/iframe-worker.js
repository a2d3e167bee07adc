// A browser starts no worker for a page that was opened as a file. There an iframe runs the theme's search instead; its
// script looks for the name IFrameWorker, and awaits importScripts.
"use strict";

if (location.protocol === "file:") {
  const importInOrder = (...addresses) =>
    addresses.reduce(
      (earlier, address) =>
        earlier.then(
          () =>
            new Promise((resolve, reject) => {
              const script = document.createElement("script");
              script.src = address;
              script.onload = resolve;
              script.onerror = () => reject(new Error(address));
              document.body.append(script);
            }),
        ),
      Promise.resolve(),
    );

  window.IFrameWorker = window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #loaded;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.document.write(
        `<body><script>postMessage = (data) => parent.postMessage(data, "*"); importScripts = ${importInOrder}</script>` +
          `<script src="${address}"></script></body>`,
      );
      inside.document.close();
      this.#loaded = new Promise((resolve) => (inside.onload = resolve)); // here, since write removes listeners
      window.addEventListener("message", (message) => {
        if (message.source === inside) this.dispatchEvent(new MessageEvent("message", { data: message.data }));
      });
    }

    postMessage(data) {
      this.#loaded.then(() => this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
