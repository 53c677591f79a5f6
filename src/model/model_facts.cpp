// See model_facts.h.
#include "model/model_facts.h"

#include <cstdint>
#include <map>

#include "model/shape_reader.h"

namespace refrain::model {

std::string main_weight_type(const GgufFile& file) {
  std::map<std::string, std::uint64_t> values;
  for (const TensorInfo& tensor : file.tensors())
    if (tensor.dims[1] > 1 && tensor.name.starts_with("blk."))
      values[tensor.type_name] += tensor.dims[0] * tensor.dims[1];
  std::string best;
  for (const auto& [name, count] : values)
    if (best.empty() || count > values[best]) best = name;
  return best;
}

Result<ModelFacts> read_model_facts(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, GgufFile::open(path));
  ModelFacts facts;
  ASSIGN_OR_RETURN(facts.shape, read_shape(*file));
  facts.quantization = main_weight_type(*file);
  return facts;
}

}  // namespace refrain::model
