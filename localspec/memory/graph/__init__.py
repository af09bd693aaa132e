"""The worst-case graph of a model and a replay of llama.cpp's allocator over it.

llama.cpp sizes its compute buffers by building the graph of its largest batch and running an
allocator over it that reuses memory as tensors die. There is no closed formula; this package
builds the same graph, sizes only, from the header, and replays the allocator.
"""
