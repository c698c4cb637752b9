// A page that was opened from disk may start no worker, so the search runs in a hidden frame there. Nothing is fetched
// from elsewhere: Material's offline plugin would ask unpkg.com for its own, unless a script of this name is there.
"use strict"

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe")
    #ready

    constructor(address) {
      super()
      this.#frame.hidden = true
      this.#ready = new Promise((done) => this.#frame.addEventListener("load", done, { once: true }))
        .then(() => this.#start(address))
      document.body.append(this.#frame)
    }

    postMessage(data) {
      this.#ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.#frame.remove()
    }

    #start(address) {
      const inside = this.#frame.contentWindow
      inside.postMessage = (data) => this.#tell(data)
      inside.importScripts = (...names) => Promise.all(names.map((name) => loaded(inside, name)))
      inside.__index = window.__index
      return loaded(inside, address).then(() => inside)
    }

    #tell(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      this.onmessage?.(event)
    }
  }
}

function loaded(inside, name) {
  return new Promise((done, failed) => {
    const script = inside.document.createElement("script")
    script.src = String(new URL(name, document.baseURI))
    script.onload = done
    script.onerror = failed
    inside.document.body.append(script)
  })
}
