"""What a stream reads: a module for each source. ``ldpbeam.pipelines.options.sources`` lists them."""
