// Node.js, unlike bundlers, wants whole names in imports.
export default { output: { path: "headroom", module: { extension: ".js" } } };
