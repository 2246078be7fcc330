#include "compiler/tools/dataset/deduplicate.h"

#include <xxhash.h>

namespace llmc::data {

bool SeenDocuments::add(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return keys_.insert({hash.low64, hash.high64}).second;
}

}  // namespace llmc::data
