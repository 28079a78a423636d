// Losses, optimizer steps and sums against plain loops in double, over the cases of op_cases.hpp.
#include "base/error.hpp"
#include "kernels/channel_sum.hpp"
#include "kernels/dropout_draws.hpp"
#include "kernels/gradient_factors.hpp"
#include "kernels/optimizer_step.hpp"
#include "kernels/regression_loss.hpp"
#include "kernels/softmax_xent.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::number;
using testing_support::numbers;

Context context_with(const DeviceArray<StepState>& state) {
  Context context = testing_support::context_for(2);
  context.step = state.data();
  return context;
}

// Which draws of 16 bits reach a limit, against one block after the other; counters beyond 32 bits too.
TEST(DropoutDraws, AreThoseOfTheStream) {
  const RandomStream stream = random_stream(3, RandomPurpose::kDropout, 7);
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1} << 35}) {
    for (const std::uint64_t first : {std::uint64_t{5}, (std::uint64_t{1} << 32) - 3}) {
      for (const std::uint32_t least : {0U, 20000U, 65535U}) {
        std::uint64_t expected = 0;
        for (std::uint64_t i = 0; i < 64; ++i) {
          const RandomBlock block = stream(index, first + i / 8);
          const std::uint32_t draw = block.word[i % 8 / 2] >> (16 * (i % 2)) & 0xFFFFU;
          expected |= std::uint64_t{draw >= least} << i;
        }
        EXPECT_EQ(draws_from<8>(stream, index, first, least), expected);
        EXPECT_EQ(draws_from<2>(stream, index, first, least) & 0xFFFFU, expected & 0xFFFFU);
      }
    }
  }
}

struct XentResult {
  std::vector<float> probabilities, loss;
  std::vector<double> dlogits;
};

template <class T>
XentResult run_xent(const std::vector<float>& logits, const std::vector<std::int32_t>& labels,
                    const std::vector<float>& weights, std::int64_t classes, float loss_scale) {
  const auto n = static_cast<std::int64_t>(labels.size());
  std::vector<T> stored;
  for (const float value : logits) stored.push_back(static_cast<T>(value));
  const DeviceArray<T> x(stored), dx(std::vector<T>(stored.size(), static_cast<T>(NAN)));
  const DeviceArray<std::int32_t> label(labels);
  const DeviceArray<float> weight(weights), probabilities(logits.size()), loss(labels.size());
  StepState state;
  state.weight = weight.data(), state.loss_scale = loss_scale;
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  SoftmaxCrossEntropy args;
  args.logits = Tensor::dense({n, classes}, kDTypeOf<T>, x.data());
  args.dlogits = Tensor::dense({n, classes}, kDTypeOf<T>, dx.data());
  args.labels = label.data(), args.probabilities = probabilities.data(), args.loss = loss.data();
  softmax_cross_entropy(context_with(step), args);
  XentResult result{probabilities.get(), loss.get(), {}};
  for (const T value : dx.get()) result.dlogits.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

template <class T>
void check_xent(const cases::MatrixCase& c) {
  constexpr double kRounding = is_rounded(kDTypeOf<T>) ? testing_support::roundoff(kDTypeOf<T>) : 0;  // of a gradient
  const std::int64_t n = c.rows, classes = c.columns;
  const float scale = 0.25F;
  std::vector<float> logits = numbers(n * classes, 1), weights = numbers(n, 2);
  for (float& value : logits) value = static_cast<float>(static_cast<T>(value * 20));
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(static_cast<std::int32_t>(i * 7 % classes));
  if (n > 2) {
    labels[1] = -1, weights[2] = 0;
    logits[static_cast<std::size_t>(2 * classes)] = NAN;
  }
  const XentResult found = run_xent<T>(logits, labels, weights, classes, scale);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const bool padding = labels[i] < 0 || weights[i] == 0;
    double denominator = 0;
    const float* x = &logits[i * static_cast<std::size_t>(classes)];
    for (std::int64_t k = 0; k < classes; ++k) denominator += std::exp(static_cast<double>(x[k]));
    for (std::int64_t k = 0; k < classes; ++k) {
      const std::size_t at = i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(k);
      if (padding) {
        EXPECT_EQ(found.dlogits[at], 0.0) << "padding";
        continue;
      }
      const double p = std::exp(static_cast<double>(x[k])) / denominator;
      EXPECT_NEAR(static_cast<double>(found.probabilities[at]), p, 1e-6);
      const double dlogit = (p - (k == labels[i])) * static_cast<double>(weights[i] * scale);
      EXPECT_NEAR(found.dlogits[at], dlogit, 1e-6 + kRounding * std::abs(dlogit));
    }
    const double loss = padding ? 0 : std::log(denominator) - static_cast<double>(x[labels[i]]);
    EXPECT_NEAR(static_cast<double>(found.loss[i]), loss, 1e-5);
  }
}

TEST(SoftmaxCrossEntropy, MatchesDouble) {
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    SCOPED_TRACE(c.name);
    check_xent<float>(c);
    testing_support::for_rounded_types([&]<class T>(T) { check_xent<T>(c); });
  }
}

TEST(SoftmaxCrossEntropy, LargeLogitsStayFinite) {
  const XentResult found = run_xent<float>({1e30F, -1e30F, 3e38F, 3e38F}, {0, 1}, {1, 1}, 2, 1);
  EXPECT_EQ(found.loss[0], 0.0F);
  EXPECT_NEAR(found.loss[1], std::log(2.0), 1e-6);
}

TEST(SoftmaxCrossEntropy, NanAndWrongLabelsShowInTheLoss) {
  const XentResult found = run_xent<float>({NAN, 0, 0, 0}, {0, 2}, {1, 1}, 2, 1);
  EXPECT_TRUE(std::isnan(found.loss[0]));
  EXPECT_TRUE(std::isnan(found.loss[1]));
}

TEST(SoftmaxCrossEntropy, GradientMatchesDifferences) {
  const std::vector<float> weights = {0.7F, 1.5F, 0.2F};
  const std::vector<std::int32_t> labels = {1, 0, 3};
  const std::vector<float> logits = numbers(12, 5);
  const XentResult found = run_xent<float>(logits, labels, weights, 4, 1);
  const auto loss = [&](double h) {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto at = [&](std::size_t c) {
        return static_cast<double>(logits[4 * i + c]) +
               h * static_cast<double>(number(static_cast<std::uint32_t>(4 * i + c), 6));
      };
      double denominator = 0;
      for (std::size_t c = 0; c < 4; ++c) denominator += std::exp(at(c));
      sum += static_cast<double>(weights[i]) * (std::log(denominator) - at(static_cast<std::size_t>(labels[i])));
    }
    return sum;
  };
  double slope = 0;
  for (std::uint32_t i = 0; i < 12; ++i) slope += found.dlogits[i] * static_cast<double>(number(i, 6));
  EXPECT_NEAR(slope, (loss(1e-4) - loss(-1e-4)) / 2e-4, 1e-6);
}

// The second slot is padding.
TEST(RegressionLoss, MatchesDouble) {
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    SCOPED_TRACE(c.name);
    std::vector<float> outputs = numbers(c.elements(), 1), weights = numbers(c.rows, 3);
    const std::vector<float> targets = numbers(c.elements(), 2);
    if (c.rows > 1) weights[1] = 0, outputs[static_cast<std::size_t>(c.columns)] = NAN;
    const DeviceArray<float> x(outputs), target(targets), weight(weights);
    StepState state;
    state.weight = weight.data(), state.loss_scale = 0.25F;
    const DeviceArray<StepState> step(std::vector<StepState>{state});
    for (const RegressionError error : {RegressionError::kAbsolute, RegressionError::kSquared}) {
      const bool squared = error == RegressionError::kSquared;
      const DeviceArray<float> dx(std::vector<float>(outputs.size(), NAN)), loss(weights.size());
      const Shape shape{c.rows, c.columns};
      regression_loss(context_with(step), error,
                      {Tensor::dense(shape, DType::kF32, x.data()), target.data(), 1, loss.data(),
                       Tensor::dense(shape, DType::kF32, dx.data())});
      std::vector<double> sums(weights.size()), gradients;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto row = i / static_cast<std::size_t>(c.columns);
        const double d = static_cast<double>(outputs[i]) - static_cast<double>(targets[i]),
                     share = static_cast<double>(weights[row]) / static_cast<double>(c.columns);
        const bool padding = weights[row] == 0;
        sums[row] += padding ? 0 : share * (squared ? d * d : std::abs(d));
        gradients.push_back(padding ? 0 : 0.25 * share * (squared ? 2 * d : d > 0 ? 1 : d < 0 ? -1 : 0));
      }
      const std::vector<float> found = loss.get(), gradient = dx.get();
      EXPECT_LE(testing_support::largest_error({found.begin(), found.end()}, sums, 1), 3e-6);
      EXPECT_LE(testing_support::largest_error({gradient.begin(), gradient.end()}, gradients, 1e-3), 1e-6);
    }
  }
}

/// Parameters outside of the range keep their bits; inside, a plain loop in double is followed for several steps.
template <class Reference, class Step>
void check_optimizer(const cases::MatrixCase& c, bool decays, const Reference& reference, const Step& step_range) {
  SCOPED_TRACE(c.name);
  const std::int64_t begin = 13, end = begin + c.elements(), size = end + 5;
  std::vector<float> start = numbers(size, 1);
  const DeviceArray<float> w(start), m(static_cast<std::size_t>(size)), v(static_cast<std::size_t>(size));
  std::vector<double> ew(start.begin(), start.end()), em(start.size()), ev(start.size());
  for (int step = 0; step < 5; ++step) {
    const std::vector<float> gradient = numbers(size, static_cast<std::uint32_t>(10 + step));
    StepState state;
    state.step = step, state.learning_rate = 0.01F / static_cast<float>(step + 1);
    const DeviceArray<StepState> device_state(std::vector<StepState>{state});
    const DeviceArray<float> g(gradient);
    const DeviceArray<float> clip(std::vector<float>{0.5F});
    step_range(context_with(device_state), ParameterRange{begin, end, decays, clip.data()}, g.data(), w.data(),
               m.data(), v.data());
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      reference(step + 1, static_cast<double>(state.learning_rate), 0.5 * static_cast<double>(gradient[i]), ew[i],
                em[i], ev[i]);
    }
    Kokkos::fence();
  }
  const std::vector<float> found = w.get();
  EXPECT_LE(testing_support::largest_error({found.begin(), found.end()}, ew, 1), 2e-6);
  EXPECT_EQ(found[12], start[12]);
  EXPECT_EQ(found[static_cast<std::size_t>(end)], start[static_cast<std::size_t>(end)]);
}

TEST(Optimizer, AdamFollowsThePaper) {
  OptimizerOptions options;
  options.beta1 = 0.8, options.beta2 = 0.95, options.epsilon = 1e-6, options.weight_decay = 0.1;
  const auto rule = make_rule(options);
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    for (const bool decays : {false, true}) {
      check_optimizer(
          c, decays,
          [&](int t, double rate, double g, double& w, double& m, double& v) {
            const double beta1 = options.beta1, beta2 = options.beta2;
            if (decays) g += options.weight_decay * w;
            m = beta1 * m + (1 - beta1) * g;
            v = beta2 * v + (1 - beta2) * g * g;
            w -= rate * (m / (1 - std::pow(beta1, t))) / (std::sqrt(v / (1 - std::pow(beta2, t))) + options.epsilon);
          },
          [&](const Context& context, const ParameterRange& range, float* g, float* w, float* m, float* v) {
            rule->step(context, range, g, w, {m, v});
          });
    }
  }
}

TEST(Optimizer, SgdWithAndWithoutMomentum) {
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    for (const double momentum : {0.0, 0.9}) {
      OptimizerOptions options;
      options.name = "sgd", options.momentum = momentum, options.weight_decay = 0.1;
      const auto rule = make_rule(options);
      check_optimizer(
          c, true,
          [&](int, double rate, double g, double& w, double& m, double&) {
            m = momentum * m + g + options.weight_decay * w;
            w -= rate * m;
          },
          [&](const Context& context, const ParameterRange& range, float* g, float* w, float* m, float*) {
            rule->step(context, range, g, w, momentum == 0 ? std::vector<float*>() : std::vector<float*>{m});
          });
    }
  }
}

// check_optimizer halves g for the reference.
TEST(Optimizer, RunningStatistics) {
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    check_optimizer(
        c, false, [](int, double, double g, double& w, double&, double&) { w += 0.1 * (2 * g - w); },
        [](const Context& context, const ParameterRange& range, float* g, float* w, float*, float*) {
          running_step(context, 0.1F, range.begin, range.end, g, w);
        });
  }
}

// Each case is a tensor; every other one decays.  They are clipped together.
TEST(Optimizer, GradientFactors) {
  std::vector<ParameterRange> tensors;
  std::int64_t elements = 0;
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    tensors.push_back({elements, elements + c.elements(), tensors.size() % 2 == 0});
    elements += c.elements();
  }
  const GradientFactorOptions options{3, 0.002F, 0.3F};
  const std::vector<float> gradients = numbers(elements, 1), weights = numbers(elements, 2);
  StepState state;
  state.learning_rate = 0.03F;
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  const DeviceArray<float> g(gradients), w(weights);
  GradientFactors factors(options, tensors);
  factors.compute(context_with(step), 0, elements, g.data(), w.data());
  const auto read = [](const float* value) { return static_cast<double>(testing_support::to_host(value, 1)[0]); };
  const auto norm = [](const std::vector<float>& values, std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return std::sqrt(sum);
  };
  const double clip = 3 / norm(gradients, 0, elements);
  EXPECT_NEAR(read(factors.clip()), clip, 1e-6 * clip);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const double of_weights = norm(weights, tensors[i].begin, tensors[i].end);
    const double of_gradient = clip * norm(gradients, tensors[i].begin, tensors[i].end);
    const double local = 0.002 * of_weights / (of_gradient + (tensors[i].decays ? 0.3 * of_weights : 0));
    EXPECT_NEAR(read(factors.trust(i)), std::min(1.0, local / 0.03), 1e-6) << i;
  }
}

TEST(Optimizer, EmptyRangeDoesNothing) {
  const DeviceArray<StepState> state(std::vector<StepState>(1));
  for (const std::string& name : rule_names()) {
    OptimizerOptions options;
    options.name = name;
    const auto rule = make_rule(options);
    rule->step(context_with(state), {7, 7}, nullptr, nullptr, std::vector<float*>(rule->states().size(), nullptr));
  }
}

template <class T>
void check_channel_sums(std::int64_t pixels, std::int64_t channels, int host_parts) {
  std::vector<T> values;
  for (const float value : numbers(pixels * channels, 5)) values.push_back(static_cast<T>(value));
  const DeviceArray<T> v(values);
  const DeviceArray<float> sum(std::vector<float>(static_cast<std::size_t>(channels), 3.0F));
  const DeviceArray<std::byte> scratch(std::vector<std::byte>(channel_sum_scratch_bytes(host_parts, pixels, channels)));
  sum_channels(testing_support::context_for(2), host_parts, v.data(), kDTypeOf<T>, pixels, channels, sum.data(),
               scratch.data());
  const std::vector<float> found = sum.get();
  for (std::int64_t c = 0; c < channels; ++c) {
    double expected = 0;
    for (std::int64_t p = 0; p < pixels; ++p)
      expected += static_cast<float>(values[static_cast<std::size_t>(p * channels + c)]);
    EXPECT_NEAR(found[static_cast<std::size_t>(c)], expected, 1e-5 * static_cast<double>(pixels + 1));
  }
}

TEST(ChannelSum, OverPixels) {
  for (const cases::MatrixCase& c : cases::kMatrixCases) {
    SCOPED_TRACE(c.name);
    for (const int host_parts : {1, 2, 16}) {
      check_channel_sums<float>(c.rows, c.columns, host_parts);
      testing_support::for_rounded_types([&]<class T>(T) { check_channel_sums<T>(c.rows, c.columns, host_parts); });
    }
  }
}

}  // namespace
}  // namespace petaflow
