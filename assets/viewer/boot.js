// Runs inside the page's HTML component. SOURCES maps file names to the text of the other modules;
// each becomes a blob module, so nothing is fetched: this works offline, under any root path, and
// in a notebook. `element`, `props`, `watch` and `trigger` are Gradio's.

const sources = SOURCES;
const urls = {};
const link = (name) => (urls[name] ??= URL.createObjectURL(new Blob(
  [sources[name].replace(/from "\.\/([\w-]+\.js)"/g, (_, other) => `from "${link(other)}"`), `\n//# sourceURL=viewer/${name}`],
  { type: "text/javascript" },
)));
import(link("main.js"))
  .then(({ mount }) => {
    const root = element.querySelector(".eagle-viewer");
    root.state = mount(root, {
      read: () => props.value,
      watch: (callback) => watch("value", callback),
      follow: (link) => trigger("link", link),
      tell: () => trigger("trace"),
    });
  })
  .catch((error) => {
    element.textContent = "The viewer could not start in this browser: a current Chrome, Edge, Firefox or Safari is needed.";
    console.error(error);
  });
