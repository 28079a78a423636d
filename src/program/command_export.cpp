// export RUN -o F.safetensors: the weights under the names and in the layout of PyTorch, but that dense layers keep the
// channels-last order of their input.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/log.hpp"
#include "io/safetensors.hpp"
#include "program/commands.hpp"
#include "train/weights.hpp"

namespace petaflow {

int command_export(const CommandLine& line, Communicator& comm) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const std::string path = checkpoint_path(line.input);
    if (!line.output.ends_with(".safetensors")) {
      user_error("export writes safetensors: name a file that ends in .safetensors instead of {}", line.output);
    }
    if (std::filesystem::exists(line.output) && !line.overwrite) {
      user_error("{} exists; choose another name, or --overwrite to replace it", line.output);
    }
    const Checkpoint checkpoint = load_checkpoint(path);
    std::map<std::string, std::string> metadata = {
        {"format", "pt"}, {"checkpoint", path}, {"description", checkpoint.model}, {"config", checkpoint.config}};
    const nlohmann::json made = nlohmann::json::parse(checkpoint.provenance, nullptr, false);
    for (const char* key : {"application", "version", "commit"}) {
      if (made.is_object() && made.contains(key) && made[key].is_string()) metadata[key] = made[key];
    }
    save_safetensors(line.output, checkpoint.weights, metadata);
    std::size_t elements = 0;
    for (const NamedArray& array : checkpoint.weights) elements += array.values.size();
    log_info("wrote {} weights in {} arrays to {}", elements, checkpoint.weights.size(), line.output);
  });
  return kDone;
}

}  // namespace petaflow
