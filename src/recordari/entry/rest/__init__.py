"""The REST door: one router per noun, one error shape, limits before anything is parsed."""
