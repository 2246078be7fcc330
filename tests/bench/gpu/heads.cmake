# Instances of llmc's own attention that heads.cpp times, as large as the reference run's layers.
set(heads_shapes
  # as in tests/unit/cuda/portable_attention.cmake
  "of_64 16 2048 32 8 64 3072 2048 128 0.125f"
  "of_64_sliding 16 2048 32 8 64 3072 2048 128 0.125f 512"
  "of_128 16 2048 16 4 128 3072 2048 128 0.088388348f"
  "of_128_sliding 16 2048 16 4 128 3072 2048 128 0.088388348f 512"
  # the same passes with copies of keys and values for clusters of four blocks
  "multicast_4_of_64 16 2048 32 8 64 3072 2048 128 0.125f"
  "multicast_4_of_64_sliding 16 2048 32 8 64 3072 2048 128 0.125f 512"
  "multicast_4_of_128 16 2048 16 4 128 3072 2048 128 0.088388348f"
  "multicast_4_of_128_sliding 16 2048 16 4 128 3072 2048 128 0.088388348f 512")
macro(heads_instances out)
  attention_instances(${out} "${heads_shapes}" _warpgroups)
endmacro()
