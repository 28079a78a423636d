// bench [LIST...]: every implementation of every operator on lists of layers and on the cases of the tests, beside what
// the processor can do.
//   build/host/bin/bench perf/shapes/hep.txt --filter 'conv2/forward'
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>

#include "base/build_info.hpp"
#include "base/error.hpp"
#include "bench_memory.hpp"
#include "bench_table.hpp"
#include "kernels/channel_sum.hpp"
#include "kernels/gemm.hpp"
#include "kernels/gradient_factors.hpp"
#include "kernels/optimizer_step.hpp"
#include "kernels/regression_loss.hpp"
#include "kernels/softmax_xent.hpp"
#include "layer_list.hpp"
#include "nn/batch_norm_stage.hpp"
#include "nn/tiles.hpp"
#include "op_cases.hpp"
#include "program/kokkos_options.hpp"
#include "update/rule.hpp"

namespace petaflow::perf {
namespace {

constexpr const char* kCases = "cases";
constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights};

class Bench {
 public:
  explicit Bench(Table::Options options)
      : type_(options.precision == "bf16" ? DType::kBf16 : DType::kF32), table_(std::move(options), context_) {
    state_.learning_rate = 1e-3F;
    context_.step = &state_;
  }

  void run_cases() {
    for (const cases::ConvCase& c : cases::kConvCases) {
      ConvLayer layer{c.name, describe(c.n, c.in_channels, c.out_channels, c.in, c.geometry), {}};
      layer.conv.x_strides = Strides::of(layer.conv.in, c.in_channels + c.x_gap);
      layer.conv.y_strides = Strides::of(layer.conv.out, c.out_channels + c.y_gap);
      layer.epilogue = follow(layer.conv, PoolKind::kNone, {});
      convolution(kCases, layer);
    }
    for (const cases::GemmCase& c : cases::kGemmCases) {
      product(fmt::format("{}/{}", kCases, c.name), "gemm",
              {c.m, c.n, c.k, c.transpose_a, c.transpose_b, (c.transpose_a ? c.m : c.k) + c.gap,
               (c.transpose_b ? c.k : c.n) + c.gap, c.n + c.gap, c.beta});
    }
    for (const cases::EpilogueCase& c : cases::kEpilogueCases) {  // behind a convolution that keeps the shape
      epilogue(kCases, {c.name, describe(c.v.n, c.v.c, c.v.c, c.v.extent(), {}), c.desc(type_)});
    }
    for (const cases::BatchNormCase& c : cases::kBatchNormCases) {
      batch_norm(kCases, {c.name, c.desc(type_), c.affine, c.residual});
    }
    for (const cases::MatrixCase& c : cases::kMatrixCases) {
      const std::string shape = fmt::format("{}/{}", kCases, c.name);
      losses(shape, c);
      sums(shape, c);
      optimizers(shape, c.elements());
    }
  }

  void run_list(const LayerList& list) {
    for (const ConvLayer& layer : list.convolutions) {
      convolution(list.name, layer);
      epilogue(list.name, layer);
    }
    for (const NormLayer& layer : list.norms) batch_norm(list.name, layer);
    for (const auto& [name, n, in, out] : list.dense) {  // as the stage of dense layers does
      const std::string shape = list.name + "/" + name;
      product(shape, "forward", {n, out, in, false, true, in, in, out});
      product(shape, "backward_data", {n, in, out, false, false, out, in, in});
      product(shape, "backward_weights", {out, in, n, true, false, out, in, in});
    }
    optimizers(list.name, list.weights());
  }

  void finish() const { table_.finish(); }

 private:
  /// All implementations, on whole tensors and in the tiles that a network cuts for them.
  void convolution(const std::string& list, const ConvLayer& layer) {
    ConvDesc conv = layer.conv;
    conv.type = type_;
    conv.threads = context_.threads;
    const Epilogue finish(layer.epilogue, nullptr, {}, {}, nullptr);
    for (const Pass pass : kPasses) {
      for (const ConvImpl* impl : conv_impls(pass, conv)) {
        for (const bool in_tiles : {false, true}) {
          const TileCutter cutter(conv, finish, context_.threads,
                                  {.conv = {ConvRequest::Rule::kOnly, impl}, .tiles = in_tiles});
          const Tiling tiling = pass == Pass::kForward        ? cutter.forward()
                                : pass == Pass::kBackwardData ? cutter.backward_data()
                                                              : cutter.backward_weights();
          if (in_tiles && tiling.whole()) continue;  // too few for the threads
          convolve({list + "/" + layer.name, name_of(pass), impl->name, tiling.tiles.size(), conv.flop(), 0, ""}, pass,
                   *impl, conv, tiling);
        }
      }
    }
  }

  void convolve(Work work, Pass pass, const ConvImpl& impl, const ConvDesc& conv, const Tiling& tiling) {
    if (!table_.wanted(work)) return;
    if (const std::string reason = impl.why_not(pass, tiling.shapes); !reason.empty())
      return table_.refuse(work, reason);
    const auto kernel = impl.make(pass, tiling.shapes);
    work.detail = kernel->detail();
    const std::int64_t element = static_cast<std::int64_t>(size_of(type_)),
                       x_elements = conv.n * conv.in.volume() * conv.in_channels,
                       y_elements = conv.n * conv.out.volume() * conv.out_channels;
    // In tiles, y never leaves the threads' caches.
    work.bytes = static_cast<double>(element * (x_elements + (tiling.whole() ? y_elements : 0)) +
                                     std::int64_t{sizeof(float)} * conv.weight_elements());
    const Array x(type_, conv.n * conv.x_strides.n), weights(DType::kF32, conv.weight_elements());
    const bool packs = kernel->packed_bytes() > 0, sums_apart = kernel->gradient_elements() > 0;
    const Buffers packed(DType::kF32, 1, kernel->packed_bytes());
    if (packs) kernel->pack(context_, weights.floats(), packed[0]);
    const std::byte* const operand = packs ? packed[0] : reinterpret_cast<const std::byte*>(weights.floats());
    const int parts = tiling.whole() ? 1 : context_.threads;
    const Buffers sums(DType::kF32, parts, static_cast<std::size_t>(kernel->gradient_elements()) * sizeof(float)),
        scratch(DType::kF32, parts, kernel->scratch_bytes());
    const auto sum = [&](int part) { return sums_apart ? reinterpret_cast<float*>(sums[part]) : weights.floats(); };
    if (tiling.whole()) {
      const Array y(type_, conv.n * conv.y_strides.n);
      const Division division(context_, false);
      table_.measure(work, [&] {
        division.run_whole("petaflow::bench",
                           [&] { kernel->run(context_, 0, {x.data(), y.data(), sum(0), scratch[0], operand}); });
      });
      return;
    }
    const Shape whole{conv.n, conv.out_channels, conv.out.d, conv.out.h, conv.out.w};
    const Buffers y(type_, parts, static_cast<std::size_t>(tiling.largest_v_bytes(whole, type_)));
    table_.measure(work, [&] {
      for_tiles(tiling, parts, pass == Pass::kBackwardWeights, [&](int part, std::size_t index) {
        const Tile& tile = tiling.tiles[index];
        std::byte* from = x.data() + offset_of(tile.x, conv.x_strides) * element;
        kernel->run(context_, tile.shape, {from, y[part], sum(part), scratch[part], operand});
      });
    });
  }

  /// Bias, pooling, activation and dropout alone.
  void epilogue(const std::string& list, const ConvLayer& layer) {
    EpilogueDesc desc = layer.epilogue;
    desc.type = type_;
    ConvDesc conv = layer.conv;
    conv.type = type_;
    conv.threads = context_.threads;
    std::vector<std::int64_t> samples(static_cast<std::size_t>(conv.n));
    std::iota(samples.begin(), samples.end(), 0);
    state_.sample = samples.data();

    const std::int64_t v_elements = desc.v.n * desc.v.sample_size(), y_elements = desc.y.n * desc.y.sample_size(),
                       saved_bytes = desc.v.n * desc.saved_bytes_per_sample();
    const double element = static_cast<double>(size_of(type_));
    const Work work{list + "/" + layer.name,
                    "",
                    "epilogue",
                    1,
                    0,
                    element * static_cast<double>(y_elements) + static_cast<double>(saved_bytes),
                    ""};
    const auto work_of = [&](bool backward, std::size_t tiles) {
      Work one = work;
      one.pass = backward ? "backward" : "forward";
      one.tiles = tiles;
      if (tiles == 1) one.bytes += element * static_cast<double>(v_elements);  // otherwise in the threads' caches
      return one;
    };
    const Epilogue shape_only(desc, nullptr, {}, {}, nullptr);
    for (const bool in_tiles : {false, true}) {
      const TileCutter cutter(conv, shape_only, context_.threads, {.tiles = in_tiles});
      const Tiling forward = cutter.forward(), backward = cutter.backward_weights();
      if (in_tiles && (forward.whole() || backward.whole())) continue;
      const Work there = work_of(false, forward.tiles.size()), back = work_of(true, backward.tiles.size());
      if (!table_.wanted(there) && !table_.wanted(back)) continue;
      const Array y(type_, y_elements), dy(type_, y_elements), bias(DType::kF32, desc.v.c),
          saved(DType::kF32, saved_bytes / 4 + 1);
      const Epilogue finish(desc, desc.bias ? bias.floats() : nullptr, Tensor::dense(desc.y, type_, y.data()),
                            Tensor::dense(desc.y, type_, dy.data()),
                            desc.saves() ? reinterpret_cast<std::uint8_t*>(saved.data()) : nullptr);
      const int parts = in_tiles ? context_.threads : 1;
      const Buffers v(type_, parts,
                      static_cast<std::size_t>(
                          std::max(forward.largest_v_bytes(desc.v, type_), backward.largest_v_bytes(desc.v, type_)))),
          sums(DType::kF32, parts, static_cast<std::size_t>(desc.v.c) * (sizeof(double) + sizeof(float)));
      const auto run_forward = [&] {
        if (!in_tiles) return finish.forward_all(context_, "petaflow::bench", v[0]);
        for_tiles(forward, parts, false, [&](int part, std::size_t i) {
          finish.forward(context_, forward.tiles[i].y, forward.tiles[i].v, v[part]);
        });
      };
      run_forward();  // backward needs what it saves
      if (table_.wanted(there)) table_.measure(there, run_forward);
      if (!table_.wanted(back)) continue;
      table_.measure(back, [&] {
        if (!in_tiles) return finish.backward_all(context_, "petaflow::bench", v[0]);
        for_tiles(backward, parts, true, [&](int part, std::size_t i) {
          auto* total = reinterpret_cast<double*>(sums[part]);
          finish.backward(context_, backward.tiles[i].v, v[part], {reinterpret_cast<float*>(total + desc.v.c), total});
        });
      });
    }
  }

  void product(const std::string& shape, const char* pass, GemmDesc desc) {
    desc.threads = context_.threads;
    const std::int64_t c_times = desc.beta == 0 ? 1 : 2;  // read, too
    for (const GemmImpl* impl : gemm_impls()) {
      Work work{shape,
                pass,
                impl->name,
                1,
                2.0 * static_cast<double>(desc.m * desc.n * desc.k),
                4.0 * static_cast<double>(desc.m * desc.k + desc.k * desc.n + c_times * desc.m * desc.n),
                ""};
      if (!table_.wanted(work)) continue;
      const std::string reason = type_ == DType::kF32 ? impl->why_not(desc) : "matrix products are f32";
      if (!reason.empty()) {
        table_.refuse(work, reason);
        continue;
      }
      const auto kernel = impl->make(desc);
      work.detail = kernel->detail();
      const Array a(DType::kF32, (desc.transpose_a ? desc.k : desc.m) * desc.lda),
          b(DType::kF32, (desc.transpose_b ? desc.n : desc.k) * desc.ldb), c(DType::kF32, desc.m * desc.ldc);
      const Buffers scratch(DType::kF32, 1, kernel->scratch_bytes());
      const Division division(context_, false);
      table_.measure(work, [&] {
        division.run_whole("petaflow::bench",
                           [&] { kernel->run(context_, a.floats(), b.floats(), c.floats(), scratch[0]); });
      });
    }
  }

  /// Portable, on whole tensors: run() if it is wanted, where so many bytes must be moved.
  template <class F>
  void portable(const std::string& shape, const char* pass, const char* name, std::int64_t bytes, const F& run) {
    const Work work{shape, pass, name, 1, 0, static_cast<double>(bytes), ""};
    if (table_.wanted(work)) table_.measure(work, run);
  }

  /// The whole stage; bytes: x twice (statistics, map), and everything else once in each of the passes that need it.
  void batch_norm(const std::string& list, const NormLayer& layer) {
    BatchNormStage::Options options{list + "/" + layer.name, layer.epilogue, {}, {}, {}, {}, {}, layer.residual};
    options.epilogue.type = type_;
    const std::int64_t channels = layer.epilogue.v.c;
    if (layer.affine) options.weight = {0}, options.bias = {channels};
    options.running_mean = {2 * channels}, options.running_variance = {3 * channels};
    BatchNormStage stage(options, context_);
    const Shape &v = layer.epilogue.v, &y = layer.epilogue.y;
    const auto bytes_of = [&](const Shape& shape) {
      return shape.elements() * static_cast<std::int64_t>(size_of(type_));
    };
    const auto saved = static_cast<std::int64_t>(stage.saved_bytes());
    const std::int64_t residual = layer.residual ? bytes_of(v) : 0;
    const Work there{options.name,
                     "forward",
                     "batch_norm",
                     1,
                     0,
                     static_cast<double>(2 * bytes_of(v) + residual + bytes_of(y) + saved),
                     ""};
    const Work back{options.name,
                    "backward",
                    "batch_norm",
                    1,
                    0,
                    static_cast<double>(3 * bytes_of(v) + residual + 2 * bytes_of(y) + 2 * saved),
                    ""};
    // The map alone, by running statistics.
    const Work evaluation{
        options.name, "evaluation", "batch_norm", 1, 0, static_cast<double>(bytes_of(v) + residual + bytes_of(y)), ""};
    if (!table_.wanted(there) && !table_.wanted(back) && !table_.wanted(evaluation)) return;
    const auto bytes = [](std::size_t count) { return Array(DType::kF32, static_cast<std::int64_t>(count) / 4 + 1); };
    const Array parameters(DType::kF32, 4 * channels), gradient(DType::kF32, 4 * channels),
        kept = bytes(stage.saved_bytes()), forward_scratch = bytes(stage.forward_scratch_bytes()),
        backward_scratch = bytes(stage.backward_scratch_bytes());
    const Array x(type_, v.elements()), dx(type_, v.elements()), r(type_, v.elements()), dr(type_, v.elements()),
        out(type_, y.elements()), dy(type_, y.elements());
    const std::vector<std::int64_t> samples(static_cast<std::size_t>(v.n));
    state_.sample = samples.data();
    const auto tensor = [&](const Shape& shape, const Array& array) {
      return Tensor::dense(shape, type_, array.data());
    };
    StageBuffers& buffers = stage.buffers;
    buffers.x = {tensor(v, x), tensor(v, r)}, buffers.dx = {tensor(v, dx), layer.residual ? tensor(v, dr) : Tensor{}};
    buffers.adds = {false, false};
    buffers.y = {tensor(y, out)}, buffers.dy = {tensor(y, dy)};
    buffers.weights = parameters.floats(), buffers.saved = kept.data();
    buffers.forward_scratch = forward_scratch.data(), buffers.backward_scratch = backward_scratch.data();
    stage.forward(context_);  // backward needs what it saves
    if (table_.wanted(there)) table_.measure(there, [&] { stage.forward(context_); });
    if (table_.wanted(back)) table_.measure(back, [&] { stage.backward(context_, gradient.floats()); });
    context_.training = false;
    if (table_.wanted(evaluation)) table_.measure(evaluation, [&] { stage.forward(context_); });
    context_.training = true;
  }

  /// Forward and backward in one.
  void losses(const std::string& shape, const cases::MatrixCase& c) {
    const Shape outputs{c.rows, c.columns};
    const Array x(type_, c.elements()), dx(type_, c.elements()), probabilities(DType::kF32, c.elements()),
        loss(DType::kF32, c.rows), weight(DType::kF32, c.rows), y(DType::kF32, c.elements()),
        dy(DType::kF32, c.elements());
    const std::vector<std::int32_t> labels(static_cast<std::size_t>(c.rows));
    state_.weight = weight.floats();
    const auto element = static_cast<std::int64_t>(size_of(type_));
    portable(shape, "loss", "softmax_xent", c.elements() * (2 * element + 4), [&] {
      softmax_cross_entropy(
          context_, {Tensor::dense(outputs, type_, x.data()), labels.data(), 1, probabilities.floats(), loss.floats(),
                     Tensor::dense(outputs, type_, dx.data())});
    });
    for (const RegressionError error : {RegressionError::kAbsolute, RegressionError::kSquared}) {
      const char* name = error == RegressionError::kAbsolute ? "absolute" : "squared";
      portable(shape, "loss", name, 12 * c.elements(), [&] {
        regression_loss(context_, error,
                        {Tensor::dense(outputs, DType::kF32, y.data()), probabilities.floats(), 1, loss.floats(),
                         Tensor::dense(outputs, DType::kF32, dy.data())});
      });
    }
  }

  void sums(const std::string& shape, const cases::MatrixCase& c) {
    const Array v(type_, c.elements()), sum(DType::kF32, c.columns),
        scratch(DType::kF32,
                static_cast<std::int64_t>(channel_sum_scratch_bytes(context_.threads, c.rows, c.columns)) / 4);
    portable(shape, "sum", "channel_sum", c.elements() * static_cast<std::int64_t>(size_of(type_)), [&] {
      sum_channels(context_, context_.threads, v.data(), type_, c.rows, c.columns, sum.floats(), scratch.data());
    });
  }

  /// Each on `count` weights, in f32.  arrays: those read plus those written.
  void optimizers(const std::string& shape, std::int64_t count) {
    const auto step = [&](const char* name, int arrays, const auto& run) {
      const Work work{shape, "optimizer", name, 1, 0, 4.0 * arrays * static_cast<double>(count), ""};
      if (!table_.wanted(work)) return;
      const Array gradients(DType::kF32, count), weights(DType::kF32, count), first(DType::kF32, count),
          second(DType::kF32, count);
      table_.measure(work, [&] { run(gradients.floats(), weights.floats(), first.floats(), second.floats()); });
    };
    const Array tuned(DType::kF32, 2);
    const ParameterRange all{.begin = 0, .end = count, .tuned = tuned.floats()};
    for (const std::string& name : rule_names()) {
      OptimizerOptions options;
      options.name = name;
      const auto rule = make_rule(options);
      const std::size_t states = rule->states().size();
      step(name.c_str(), 3 + 2 * static_cast<int>(states), [&](float* g, float* w, float* m, float* v) {
        rule->step(context_, all, g, w, states == 2 ? std::vector<float*>{m, v} : std::vector<float*>(states, m));
      });
    }
    step("running", 3, [&](const float* g, float* w, float*, float*) { running_step(context_, 0.1F, 0, count, g, w); });
    GradientFactors factors({.clip_norm = 1, .larc = 0.002F}, {all});
    step("clip_and_larc", 2,
         [&](const float* g, float* w, float*, float*) { factors.compute(context_, 0, count, g, w); });
  }

  DType type_;
  Context context_;
  StepState state_;
  Table table_;
};

int run(int argc, char** argv) {
  Table::Options options;
  std::vector<std::string> names = {kCases, "perf/shapes/hep.txt", "perf/shapes/cosmoflow.txt",
                                    "perf/shapes/cosmoflow_mlperf.txt"};
  CLI::App program(
      "Times every implementation of every operator on lists of layers, on whole tensors and in the tiles that "
      "networks cut; the packing of weights is not in it.",
      "bench");
  program.add_option("LIST", names, "files with lists of layers, or \"cases\": the operator cases of the tests")
      ->capture_default_str();
  program.add_option("--precision", options.precision, "of activations and their gradients")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  program.add_option("--filter", options.filter,
                     "regular expression, searched for in LIST/SHAPE/PASS/IMPLEMENTATION/FORM; FORM: whole or tiles");
  program.add_option("--time", options.seconds, "seconds for each line, at least three runs")
      ->check([](const std::string& text) {
        const double seconds = std::atof(text.c_str());
        return seconds >= 0 && seconds <= 1e4 ? "" : text + " is no number of seconds from 0 to 10000";  // NaN is none
      })
      ->capture_default_str();
  program.add_flag("--refused", options.refused, "say which implementations refuse a shape, and why");
  program.footer("Options of Kokkos (--kokkos-...) are passed on.");
  program.set_version_flag("--version",
                           fmt::format("bench of petaflow {}, commit {}", build_info().version, build_info().commit),
                           "print what this program was built from");
  std::vector<char*> own = {argv[0]}, kokkos_own = {argv[0]};
  for (int i = 1; i < argc; ++i) (std::string(argv[i]).starts_with("--kokkos-") ? kokkos_own : own).push_back(argv[i]);
  check_kokkos_arguments({kokkos_own.begin() + 1, kokkos_own.end()});
  try {
    program.parse(static_cast<int>(own.size()), own.data());
  } catch (const CLI::Success& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    petaflow::user_error("{}; see bench --help", error.what());
  }
  std::vector<std::optional<LayerList>> lists;  // nothing: the cases
  for (const std::string& name : names) {
    lists.push_back(name == kCases ? std::nullopt : std::optional(read_layer_list(name)));
  }

  std::string quiet = "--kokkos-disable-warnings";  // its advice on OMP_PROC_BIND
  kokkos_own.push_back(quiet.data());
  int count = static_cast<int>(kokkos_own.size());
  kokkos_own.push_back(nullptr);
  const Kokkos::ScopeGuard kokkos(count, kokkos_own.data());
  Bench bench(std::move(options));
  for (const std::optional<LayerList>& list : lists) list ? bench.run_list(*list) : bench.run_cases();
  bench.finish();
  return 0;
}

}  // namespace
}  // namespace petaflow::perf

int main(int argc, char** argv) {
  try {
    return petaflow::perf::run(argc, argv);
  } catch (const petaflow::Error& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return error.kind() == petaflow::ErrorKind::kUser ? 1 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 2;
  }
}
