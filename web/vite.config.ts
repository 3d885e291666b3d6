import { defineConfig } from "vite";

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../src/recordari/doors/web/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no inline script or style
    modulePreload: { polyfill: false },
    rollupOptions: { input: ["index.html", "docs.html"] },
  },
  // `npm run dev` shows changes at once, against a server that runs beside it.
  server: { proxy: Object.fromEntries(["/v1", "/sign_in", "/readyz", "/version", "/openapi.json"].map((path) => [path, "http://127.0.0.1:8765"])) },
});
