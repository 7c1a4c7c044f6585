// Knows whether the view is live, and tells when there is something new.
//
// The browser opens the stream again by itself; when it gives up, we do. Silence for longer than
// three beats is a lost connection, whatever the browser thinks.

const SILENCE = 16000;

export function listen(changed, state) {
  let source = null;
  let last = Date.now();
  let version = null;
  let pause = 1000;

  function open() {
    source?.close();
    source = new EventSource("/api/live");
    const heard = (event) => {
      last = Date.now();
      pause = 1000;
      state("live");
      if (event.type === "changed" || event.data !== version) {
        version = event.data;
        changed();
      }
    };
    source.addEventListener("changed", heard);
    source.addEventListener("beat", heard);
    source.addEventListener("error", () => {
      state("lost");
      if (source.readyState === EventSource.CLOSED) {
        setTimeout(open, pause);
        pause = Math.min(pause * 2, 30000);
      }
    });
  }

  setInterval(() => {
    if (Date.now() - last > SILENCE) {
      state("lost");
      last = Date.now();
      open();
    }
  }, 2000);
  open();
}
