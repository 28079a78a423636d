#include "program/commands.hpp"

#include <cstdio>
#include <filesystem>

#include "comm/agree.hpp"
#include "io/log.hpp"
#include "kernels/conv.hpp"
#include "measure/binding.hpp"
#include "run/tuning.hpp"
#include "train/sync.hpp"
#include "train/weights.hpp"

namespace petaflow {

void print(const Job& job, const std::string& text) {
  if (!job.is_root()) return;
  if (std::puts(text.c_str()) == EOF || std::fflush(stdout) != 0) failure("cannot write to the standard output");
}

void say_binding(Job& job) {
  const std::vector<Binding> bindings = gather_bindings(*job.comm, job.context.threads);
  if (bindings.size() > 1) job.say_line(binding_table(bindings));
  for (const std::string& warning : binding_warnings(bindings)) job.say_line(warning);
}

std::vector<std::string> describe_products(const CommonOptions& options) {
  std::vector<std::string> sentences;
  if (options.precision == "bf16") {
    sentences.push_back(
        fmt::format("convolutions in bf16, products by {} (where kokkos computes: f32 arithmetic); predictions in f32",
                    bf16_products()));
  }
  if (options.precision == "f32" && options.kernels.f32 == "split3") {
    sentences.push_back(fmt::format(
        "f32 convolutions of the passes that summary shows as split3: by three products of bf16, these by {}{}",
        bf16_products(), bf16_products() == "AMX tiles" ? "" : ", which is slower than f32"));
  }
  return sentences;
}

namespace {

// Overrides (key=value), which other commands take, would be looked for as data files.
void refuse_overrides(const Job& job) {
  for (const std::string& file : job.line.files) {
    const std::size_t key = file.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.");
    if (key == 0 || key == std::string::npos || file[key] != '=' || std::filesystem::exists(file)) continue;
    user_error("{} is no file, and {} takes no keys: the run's own hold, which its checkpoint keeps", file,
               job.line.command);
  }
}

}  // namespace

TrainedNetwork load_trained(Job& job) {
  agree(*job.comm, [&] {
    if (job.is_root()) refuse_overrides(job);
  });
  TrainedNetwork trained;
  trained.path = checkpoint_path(job.line.input);
  const Checkpoint checkpoint = load_checkpoint_everywhere(*job.comm, trained.path);
  agree(*job.comm, [&] {
    if (checkpoint.config.empty()) {
      user_error(
          "{} holds weights but no configuration, so its network is not known; start a run with it instead: "
          "train.init={} train.epochs=0",
          trained.path, trained.path);
    }
  });
  trained.provenance = checkpoint.provenance;
  job.load_text(checkpoint.config, trained.path);
  tune_convolutions(job, false);
  agree(*job.comm, [&] {
    const NetworkOptions options =
        inference_options(job.options, share_of_batch(job.options.train, job.comm->rank(), job.comm->size()).pass);
    trained.loss = std::make_unique<Objective>(job.app.objective());
    trained.network = std::make_unique<Network>(job.app.model(job.app.sample_shape()), options, job.context);
    set_weights(*trained.network, job.context, checkpoint.weights, trained.path);
  });
  return trained;
}

std::vector<Estimates> classical_estimates(Job& job, const Dataset& data) try {
  return job.app.classical_estimates(job.options, *job.comm, data);
} catch (const AgreedError& error) {
  if (error.kind() != ErrorKind::kUser) throw;
  if (job.is_root()) log_warning("the classical estimates are left out: {}", error.what());
  return {};
}

Predictions predict(Job& job, Network& network, const Objective& loss, const Dataset& data) {
  std::unique_ptr<Predictor> predictor;
  agree(*job.comm, [&] {
    predictor =
        std::make_unique<Predictor>(*job.comm, job.context, network, loss, data, job.options.data, job.app.views(data));
  });
  return predictor->run();
}

}  // namespace petaflow
