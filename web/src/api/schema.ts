// The types of the TypeScript client, which `make routes` writes from the REST routes.

export * from "../../../clients/typescript/src/schema";
