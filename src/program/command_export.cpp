// export RUN -o F.safetensors: the weights under the names and in the layout of PyTorch, but that dense layers keep the
// channels-last order of their input.  With --pytorch also F.py, the network as a module that loads them.
#include <filesystem>

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "io/safetensors.hpp"
#include "nn/pytorch.hpp"
#include "program/commands.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

namespace fs = std::filesystem;

std::string twin_path(const std::string& weights) { return fs::path(weights).replace_extension(".py").string(); }

void check_outputs(const CommandLine& line) {
  if (!line.output.ends_with(".safetensors")) {
    user_error("export writes safetensors: name a file that ends in .safetensors instead of {}", line.output);
  }
  check_new_output(line.output, line.overwrite);
  if (!line.pytorch) return;
  check_new_output(twin_path(line.output), line.overwrite);
  const std::string module = fs::path(line.output).stem().string();
  if (!is_python_name(module)) {
    user_error(
        "--pytorch writes {}.py, which Python cannot import: take a name of letters, digits and _ that is no keyword",
        module);
  }
  if (module == "torch" || module == "safetensors" || module == "numpy") {
    user_error("--pytorch writes {}.py, which would hide Python's own {}: name another file", module, module);
  }
}

void write_weights(const CommandLine& line, const std::string& path, const Checkpoint& checkpoint) {
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
}

}  // namespace

int command_export(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm) {
  const std::string path = checkpoint_path(line.input);
  Checkpoint checkpoint;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    check_outputs(line);
    checkpoint = load_checkpoint(path);
    if (line.pytorch && checkpoint.config.empty()) {
      user_error("{} holds weights but no configuration, so its network is not known: leave out --pytorch", path);
    }
  });
  if (line.pytorch) config.load_text(comm, broadcast_text(comm, checkpoint.config), path);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    std::string twin;
    if (line.pytorch) {
      const std::string head = fmt::format(
          "The network of {}, a run of petaflow's {}.\n\nIts input is what the run's [data] options make of the files "
          "(normalised, transformed, N first);\nits outputs are what the loss takes (before softmax or ranges).",
          line.input, task.name());
      twin = pytorch_twin(task.model(task.sample_shape()), head, fs::path(line.output).filename().string());
    }
    make_parent(line.output);
    write_weights(line, path, checkpoint);
    if (!line.pytorch) return;
    write_file_atomically(twin_path(line.output), twin);
    log_info("wrote the network for PyTorch to {}", twin_path(line.output));
  });
  return kDone;
}

}  // namespace petaflow
