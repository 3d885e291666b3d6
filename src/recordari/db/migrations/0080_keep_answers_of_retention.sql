-- On a cluster one role writes in a transaction. So a request that forgets keeps its answer under the role that forgot.
GRANT INSERT, DELETE ON answers TO recordari_retention;
