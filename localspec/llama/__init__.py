"""The only package that imports llama_cpp: model, context, sampler, log, capabilities."""
