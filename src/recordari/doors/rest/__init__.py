"""The REST server: the application and the layers around every request."""
