// Convolutions: every implementation and pass of every case against the definition in double, whole and in boxes;
// gradients against central differences; the choice among implementations.
#include <map>
#include <optional>

#include "base/error.hpp"
#include "conv_request.hpp"
#include "conv_runner.hpp"
#include "emulated_amx.hpp"
#include "kernels/amx.hpp"
#include "winograd_growth.hpp"

namespace petaflow {
namespace {

using testing_support::boxes_of;
using testing_support::conv_request;
using testing_support::ConvArrays;
using testing_support::ConvReference;
using testing_support::PlacedBox;
using testing_support::root_mean_square;

constexpr std::array kPasses = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights};

std::vector<double>& result_of(Pass pass, ConvArrays& a) {
  return pass == Pass::kForward ? a.y : pass == Pass::kBackwardData ? a.x : a.w;
}

/// x and y hold numbers of T, w of f32.
template <class T>
ConvArrays random_arrays(const ConvReference& reference) {
  ConvArrays arrays;
  const auto fill = [](std::size_t count, std::uint32_t seed, auto round) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = round(testing_support::number(static_cast<std::uint32_t>(i), seed));
    return values;
  };
  arrays.x = fill(reference.x_size(), 1, testing_support::rounded<T>);
  arrays.y = fill(reference.y_size(), 2, testing_support::rounded<T>);
  arrays.w = fill(reference.w_size(), 3, testing_support::rounded<float>);
  return arrays;
}

/// Those of this build, and those on AMX tiles for processors without.
std::vector<const ConvImpl*> impls_of(Pass pass, DType type) {
  std::vector<const ConvImpl*> impls;
  ConvDesc like;
  like.type = type;
  like.products = F32Products::kSplit3;
  for (const std::span<const ConvImpl* const> list : {conv_impls(pass, like), testing_support::emulated_impls()})
    impls.insert(impls.end(), list.begin(), list.end());
  return impls;
}

/// The size of a typical sum of the pass.
double scale_of(Pass pass, const cases::ConvCase& c, const ConvArrays& a, const Extent& out) {
  const double taps = static_cast<double>(c.geometry.kernel.volume());
  const auto group = [&](std::int64_t channels) { return static_cast<double>(channels / c.geometry.groups); };
  if (pass == Pass::kForward)
    return root_mean_square(a.x) * root_mean_square(a.w) * std::sqrt(group(c.in_channels) * taps);
  if (pass == Pass::kBackwardData)
    return root_mean_square(a.y) * root_mean_square(a.w) * std::sqrt(group(c.out_channels) * taps);
  return root_mean_square(a.x) * root_mean_square(a.y) * std::sqrt(static_cast<double>(c.n * out.volume()));
}

/// Largest and relative L2 error of a pass.
struct Tolerance {
  double largest = 0;  // in units of the size of a typical sum, or of the number itself where that is larger
  double l2 = 0;
};

// In f32 the largest error of Winograd's transforms is a few times that of sums of products.
constexpr Tolerance kTransformsInF32{4e-5, 5e-6}, kLargePatchesInF32{1e-4, 5e-6};

/// What roundings to bf16 or fp16, of relative size up to u = roundoff(type) and u / sqrt(3) in the mean square, change
/// of `results` sums: those of weights (one in each product) and of the result; for Winograd's products in bf16, of
/// fewer than five taps, those of the two transforms' results instead, enlarged.  Gradients of weights are f32, and x
/// and dy are rounded already.  The largest of N normal numbers is hardly beyond sqrt(2 ln N) + 1 of their
/// deviations.
Tolerance rounding_tolerance(DType type, Pass pass, bool transforms, std::int64_t taps, std::size_t results) {
  const double u = testing_support::roundoff(type);
  const bool of_weights = pass == Pass::kBackwardWeights, transforms_in_f32 = transforms && taps == 5;
  const double result = of_weights ? 0 : u, largest = std::sqrt(2 * std::log(static_cast<double>(results))) + 1;
  if (!transforms || transforms_in_f32) {
    if (of_weights) return transforms_in_f32 ? kTransformsInF32 : Tolerance{1e-5, 1e-5};
    return {result + largest * u / std::sqrt(3), u};
  }
  const auto growth = testing_support::winograd_growth(static_cast<std::size_t>(taps), of_weights);
  const double one = std::sqrt(2.0 / 3) * u;  // of both transforms
  return {result + largest * one * growth.largest, std::hypot(one * growth.mean, result / std::sqrt(3)) + 1e-5};
}

class Convolution : public testing::TestWithParam<cases::ConvCase> {
 protected:
  template <class T>
  void compare() {
    const cases::ConvCase& c = GetParam();
    const ConvReference reference(c);
    const ConvArrays given = random_arrays<T>(reference);
    for (const Pass pass : kPasses) {
      ConvArrays expected = given;
      if (pass == Pass::kForward) reference.forward(expected);
      if (pass == Pass::kBackwardData) reference.backward_data(expected);
      if (pass == Pass::kBackwardWeights) reference.backward_weights(expected);
      const double scale = scale_of(pass, c, given, reference.out());
      const std::vector<double>& expected_result = result_of(pass, expected);
      std::vector<std::vector<PlacedBox>> divisions = {{{testing_support::whole_desc(c, kDTypeOf<T>, 2)}}};
      for (const std::int64_t height : {1, 3, 12, 40, 1000}) {
        if (!kOnHost) break;  // boxes are for the host
        divisions.push_back(boxes_of(pass, c, kDTypeOf<T>, height));
      }
      // Transforms as if they had been chosen for the layer, however small it is: weights a piece at a time (kWhole),
      // few channels with stride 2, large patches.
      for (const Transforms transforms : {Transforms::kWhole, Transforms::kInTiles, Transforms::kInLargePatches}) {
        const auto choose = [&](std::vector<PlacedBox> boxes) {
          for (PlacedBox& box : boxes) box.desc.transforms = transforms;
          divisions.push_back(std::move(boxes));
        };
        for (const int threads : {1, 2}) choose({{testing_support::whole_desc(c, kDTypeOf<T>, threads)}});
        if (kOnHost && transforms != Transforms::kWhole) choose(boxes_of(pass, c, kDTypeOf<T>, 12));
      }
      for (const ConvImpl* each : impls_of(pass, kDTypeOf<T>)) {
        const ConvImpl& impl = *each;
        const std::string name = impl.name;
        std::map<std::int64_t, std::vector<double>> first_of;  // division, by the size of patches
        for (const std::vector<PlacedBox>& boxes : divisions) {
          std::vector<ConvDesc> descs;
          for (const PlacedBox& box : boxes) descs.push_back(box.desc);
          const std::optional<Transforms> chosen = descs.front().transforms;
          if (chosen && impl.scope != ConvScope::kTransform) continue;
          if (!impl.why_not(pass, descs).empty()) {
            EXPECT_STRNE(impl.name, "kokkos") << "never refuses";
            // The plainest of cases: what refuses it would go untested.  Boxes of a row are refused by oneDNN's
            // gradients of weights for AVX2.
            const bool meant = kDTypeOf<T> == DType::kF32
                                   ? name == "onednn"
                                   : name.starts_with("emulated") && pass == Pass::kBackwardWeights;
            EXPECT_FALSE(meant && boxes.size() == 1 && std::string(c.name) == "k3_128")
                << name_of(pass) << ": " << impl.why_not(pass, descs);
            EXPECT_FALSE(name == "depthwise" && std::string(c.name).starts_with("depthwise_k"))
                << impl.why_not(pass, descs);
            const Pass to_few = std::string(c.name) == "k3_to_3" ? Pass::kForward : Pass::kBackwardData;
            EXPECT_FALSE(name == "columns" && std::string(c.name).starts_with("k3_to_3") && pass == to_few)
                << impl.why_not(pass, descs);
            const bool f32 = kDTypeOf<T> == DType::kF32;
            const std::string text = c.name;
            const bool many = (f32 && text.starts_with("k1_many")) || text.find("_wide") != std::string::npos;
            EXPECT_FALSE(name == "taps" && many && (f32 || bf16_products() == "AVX512_BF16") &&
                         pass == Pass::kBackwardWeights)
                << impl.why_not(pass, descs);
            continue;
          }
          ConvArrays found = given;
          const std::string ran = testing_support::run_conv<T>(impl, pass, c, boxes, found);
          const bool transforms = impl.scope == ConvScope::kTransform;
          const std::string what = fmt::format("{} {} {}, {} boxes for {} threads", ran, name_of(pass),
                                               name_of(kDTypeOf<T>), boxes.size(), descs.front().threads);
          const std::int64_t taps =
              c.geometry.kernel.h / c.geometry.stride.h + c.geometry.kernel.h % c.geometry.stride.h;
          const bool splits = name == "split3", large = ran.find("F(6x6, 3x3)") != std::string::npos;
          // cuDNN rounds gradients of weights, of folded pixels several that are added.
          const bool rounds = name == "cudnn" && pass == Pass::kBackwardWeights && is_rounded(kDTypeOf<T>);
          const bool folds = ran.find("folded") != std::string::npos;
          const Tolerance tolerance = rounds                    ? Tolerance{folds ? 16e-3 : 8e-3, 3e-3}
                                      : is_rounded(kDTypeOf<T>) ? rounding_tolerance(kDTypeOf<T>, pass, transforms,
                                                                                     taps, expected_result.size())
                                      : splits                  ? Tolerance{1e-4, 2e-5}
                                      : large                   ? kLargePatchesInF32
                                      : transforms              ? kTransformsInF32
                                                                : Tolerance{1e-5, 1e-5};
          const std::vector<double>& found_result = result_of(pass, found);
          EXPECT_LE(testing_support::largest_error(found_result, expected_result, scale), tolerance.largest) << what;
          EXPECT_LE(testing_support::relative_l2(found_result, expected_result), tolerance.l2) << what;
          if (transforms && chosen != Transforms::kWhole) {
            // Whole or in boxes that cut no patch of 3 to 6 rows, which lie apart by the dilation or which strides may
            // double: the same bits.
            const bool doubled = c.geometry.stride.h == 2 && pass == Pass::kBackwardData;
            const std::int64_t patch = large ? 6 : taps == 5 ? 4 : 7 - taps;
            const std::int64_t rows = patch * (doubled ? 2 : c.geometry.dilation.h);
            const bool cuts = boxes.size() > 1 && boxes[1].sample == 0 &&
                              (doubled || pass == Pass::kBackwardData ? boxes[1].x_row : boxes[1].y_row) % rows != 0;
            std::vector<double>& first = first_of[patch];
            if (!cuts && first.empty()) first = result_of(pass, found);
            if (pass != Pass::kBackwardWeights && !cuts) {
              EXPECT_EQ(result_of(pass, found), first) << what;
            }
          }
        }
      }
    }
  }
};

TEST_P(Convolution, MatchesTheDefinition) { compare<float>(); }
TEST_P(Convolution, MatchesTheDefinitionRounded) {
  testing_support::for_rounded_types([this]<class T>(T) { compare<T>(); });
}

/// More patches than a block of the transforms holds, and more blocks than are summed in f32: whole tensors of two
/// threads against sums of products.
TEST(Winograd, BlocksShareOneSum) {
  const ConvImpl* winograd = find_conv("winograd");
  if (winograd == nullptr) GTEST_SKIP() << "SKIPPED: not for devices";
  for (const std::int64_t taps : {3, 5}) {
    const cases::ConvCase c = {"", 1, 16, 16, {1, 268, 272}, cases::window({1, taps, taps}, {0, 1, 1})};
    const ConvArrays given = random_arrays<float>(ConvReference(c));
    const auto gradient = [&](const ConvImpl& impl) {
      ConvArrays found = given;
      testing_support::run_conv<float>(impl, Pass::kBackwardWeights, c,
                                       {{testing_support::whole_desc(c, DType::kF32, 2)}}, found);
      return found.w;
    };
    EXPECT_LE(testing_support::relative_l2(gradient(*winograd), gradient(*find_conv("kokkos"))), 5e-6) << taps;
  }
}

/// L = <conv(x, w), r>: the kernels' <dL/dx, v> and <dL/dw, v> against (L(+h v) - L(-h v)) / 2 h, L in double.
TEST_P(Convolution, GradientsMatchDifferences) {
  const cases::ConvCase& c = GetParam();
  const ConvReference reference(c);
  const ConvArrays given = random_arrays<float>(reference);
  const auto loss = [&](ConvArrays a) {
    reference.forward(a);
    return testing_support::dot(a.y, given.y);
  };
  for (const Pass pass : {Pass::kBackwardData, Pass::kBackwardWeights}) {
    ConvArrays plus = given, minus = given, probe = given;
    std::vector<double>& direction = result_of(pass, probe);
    const double h = 1e-3;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = static_cast<double>(testing_support::number(static_cast<std::uint32_t>(i), 4));
      result_of(pass, plus)[i] += h * direction[i];
      result_of(pass, minus)[i] -= h * direction[i];
    }
    const double slope = (loss(plus) - loss(minus)) / (2 * h);
    const auto impls = conv_impls(pass);
    for (const ConvImpl* each : impls) {
      const ConvImpl& impl = *each;
      const std::vector<PlacedBox> boxes = {{testing_support::whole_desc(c, DType::kF32, 2)}};
      if (!impl.why_not(pass, std::array{boxes.front().desc}).empty()) continue;
      ConvArrays found = given;
      testing_support::run_conv<float>(impl, pass, c, boxes, found);
      const std::vector<double>& gradient = result_of(pass, found);
      double size = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) size += std::pow(gradient[i] * direction[i], 2);
      EXPECT_NEAR(testing_support::dot(gradient, direction), slope, 1e-4 * std::sqrt(size) + 1e-6)
          << impl.name << " " << name_of(pass);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Convolution, testing::ValuesIn(cases::kConvCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(WindowOutput, Formula) {
  EXPECT_EQ(window_output(224, 3, 1, 1, 1, 1), 224);
  EXPECT_EQ(window_output(7, 3, 2, 1, 0, 0), 3);
  EXPECT_EQ(window_output(8, 3, 2, 1, 0, 1), 4);
  EXPECT_EQ(window_output(5, 3, 1, 2, 0, 0), 1);
  EXPECT_EQ(window_output(4, 3, 1, 2, 0, 0), 0);
  EXPECT_EQ(window_output(1, 3, 2, 1, 0, 0), 0);
}

// Reordering for the gradients of weights comes first but in boxes with neighbouring taps, where that depends on the
// cache.
TEST(ChooseConv, WholeTensorsAndStridesAreReorderedFirst) {
  const auto library = [](const ConvDesc& like) {
    const auto impls = conv_impls(Pass::kBackwardWeights, like);
    const auto first =
        std::ranges::find_if(impls, [](const ConvImpl* i) { return std::string_view(i->name).starts_with("onednn"); });
    return std::string(first == impls.end() ? "" : (*first)->name);
  };
  if (library({}).empty()) GTEST_SKIP() << "a build without oneDNN";
  ConvDesc whole, strided;
  whole.threads = 2;
  strided.geometry.stride.h = 2;
  EXPECT_EQ(library(whole), "onednn_blocked");
  EXPECT_EQ(library(strided), "onednn_blocked");
}

/// The name of what is chosen.
std::string chosen(Pass pass, const ConvDesc& desc, const ConvRequest& request = {}) {
  return choose_conv(pass, {&desc, 1}, request).impl->name;
}

ConvDesc wide_layer() {
  return {1,
          128,
          128,
          {1, 56, 56},
          {1, 56, 56},
          {{1, 3, 3}, {}, {}, {0, 1, 1}, {0, 1, 1}},
          Strides::of({1, 56, 56}, 128),
          Strides::of({1, 56, 56}, 128)};
}

TEST(ChooseConv, PortableIsLast) {
  const ConvDesc desc = testing_support::whole_desc(cases::kConvCases[0], DType::kF32, 2);
  for (const Pass pass : kPasses) {
    EXPECT_STREQ(conv_impls(pass).back()->name, "kokkos");
    EXPECT_EQ(chosen(pass, desc, conv_request("kokkos")), "kokkos");
    std::size_t passed_over = 0;  // of those for any layer
    for (const ConvImpl* impl : conv_impls(pass, desc)) {
      if (impl->name == chosen(pass, desc)) break;
      passed_over += impl->scope == ConvScope::kAny ? 1 : 0;
    }
    EXPECT_EQ(choose_conv(pass, {&desc, 1}, {}).refusals.size(), passed_over);
  }
}

TEST(ChooseConv, TheFirstThatAcceptsIsTaken) {
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: one implementation";
  ConvDesc wide = wide_layer(), first = wide;
  EXPECT_EQ(chosen(Pass::kForward, wide), "winograd");
  EXPECT_NE(chosen(Pass::kForward, wide, conv_request("direct")), "winograd");
  first.in_channels = 3;
  first.x_strides = Strides::of(first.in, 3);
  EXPECT_EQ(chosen(Pass::kForward, first), "narrow");
  EXPECT_EQ(chosen(Pass::kBackwardData, first), "columns");
  EXPECT_EQ(chosen(Pass::kBackwardWeights, first), "narrow");
  const bool amx = bf16_products() == "AMX tiles";
  wide.type = first.type = DType::kBf16;
  EXPECT_EQ(chosen(Pass::kForward, wide), amx ? "onednn" : "winograd");
  EXPECT_EQ(chosen(Pass::kForward, first), amx ? "onednn" : "narrow");
  for (const ConvDesc& of : {wide, first}) EXPECT_EQ(chosen(Pass::kBackwardWeights, of) == "amx", may_use_amx());
#ifdef __AVX512BF16__
  if (!amx) {  // no taps for Winograd's transforms
    ConvDesc many_taps = wide;
    many_taps.geometry = {{1, 7, 7}, {}, {}, {0, 3, 3}, {0, 3, 3}};
    EXPECT_EQ(chosen(Pass::kBackwardWeights, many_taps), "dots");
  }
#endif
}

TEST(ChooseConv, ManyChannelsHaveLargePatchesAndPhases) {
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: one implementation";
  const auto detail = [](Pass pass, std::int64_t channels, std::int64_t stride) {
    ConvDesc desc = wide_layer();
    desc.in_channels = desc.out_channels = channels;
    desc.geometry.stride = {1, stride, stride};
    desc.in = {1, 96, 96};
    desc.out = {1, 96 / stride, 96 / stride};
    desc.x_strides = Strides::of(desc.in, channels);
    desc.y_strides = Strides::of(desc.out, channels);
    return choose_conv(pass, {&desc, 1}, {}).kernel->detail();
  };
  for (const Pass pass : kPasses) {
    EXPECT_EQ(detail(pass, 128, 1), "winograd F(4x4, 3x3)");
    EXPECT_EQ(detail(pass, 256, 1), "winograd F(6x6, 3x3)");
    EXPECT_EQ(detail(pass, 112, 2).find("winograd"), std::string::npos);
    EXPECT_EQ(detail(pass, 128, 2), "winograd F(5x5, 2x2) of 4 phases");
  }
}

TEST(ChooseConv, WhatIsAskedForIsTakenOrRefused) {
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: one implementation";
  const ConvDesc wide = wide_layer();
  const std::pair<const char*, Pass> refused[] = {
      {"narrow", Pass::kForward}, {"dots", Pass::kForward}, {"amx", Pass::kBackwardData}};
  for (const auto& [name, pass] : refused) {
    if (find_conv(name) == nullptr) continue;  // another processor
    try {
      choose_conv(pass, {&wide, 1}, conv_request(name));
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      const std::string text = error.what();
      EXPECT_NE(text.find(fmt::format("kernels.conv = \"{}\" does not take its {} pass", name, name_of(pass))),
                std::string::npos)
          << text;
    }
    const ConvChoice preferred = choose_conv(pass, {&wide, 1}, conv_request(fmt::format("prefer:{}", name)));
    EXPECT_EQ(preferred.impl->name, chosen(pass, wide));
    ASSERT_FALSE(preferred.refusals.empty());
    EXPECT_TRUE(preferred.refusals.front().starts_with(fmt::format("not {}: ", name))) << preferred.refusals.front();
  }
  EXPECT_EQ(chosen(Pass::kForward, wide, conv_request("prefer:kokkos")), "kokkos");
}

/// Products of numbers that are rounded to TF32, to 10 bits, twice: sums are off by 2^-11 in the mean square, about.
TEST(ConvolutionInTf32, IsOffByTheRoundingOfProducts) {
  const ConvImpl* const cudnn = find_conv("cudnn");
  if (cudnn == nullptr) GTEST_SKIP() << "SKIPPED: this build has no cuDNN, which alone rounds to TF32";
  for (const cases::ConvCase& c : cases::kConvCases) {
    const ConvReference reference(c);
    const ConvArrays given = random_arrays<float>(reference);
    for (const Pass pass : kPasses) {
      PlacedBox whole{testing_support::whole_desc(c, DType::kF32, 2)};
      whole.desc.products = F32Products::kTf32;
      if (!cudnn->why_not(pass, {&whole.desc, 1}).empty()) continue;
      ConvArrays expected = given, found = given;
      if (pass == Pass::kForward) reference.forward(expected);
      if (pass == Pass::kBackwardData) reference.backward_data(expected);
      if (pass == Pass::kBackwardWeights) reference.backward_weights(expected);
      const std::string ran = testing_support::run_conv<float>(*cudnn, pass, c, {whole}, found);
      const double error = testing_support::relative_l2(result_of(pass, found), result_of(pass, expected));
      EXPECT_LE(error, 1e-3) << c.name << " " << ran << " " << name_of(pass);
    }
  }
}

TEST(ChooseConv, EveryImplementationIsListedOnceAndHasWords) {
  std::vector<std::string> names;
  for (const auto& [word, request] : conv_requests()) {
    if (request.rule == ConvRequest::Rule::kOnly) names.push_back(word);
  }
  for (const Pass pass : kPasses) {
    for (const DType type : {DType::kF32, DType::kBf16}) {
      ConvDesc like;
      like.type = type;
      like.products = F32Products::kSplit3;
      std::vector<std::string> listed;
      for (const ConvImpl* impl : conv_impls(pass, like)) {
        EXPECT_EQ(std::ranges::count(listed, impl->name), 0) << impl->name;
        EXPECT_EQ(std::ranges::count(names, impl->name), 1) << impl->name;
        EXPECT_EQ(find_conv(impl->name), impl);
        listed.push_back(impl->name);
      }
    }
  }
  EXPECT_EQ(find_conv("cuddn"), nullptr);
}

/// The same bits from run to run for a given number of threads.
TEST(PortableConvolution, SumsWeightsInAFixedOrder) {
  const cases::ConvCase c = {"fixed_order", 4, 5, 7, {1, 33, 31}, cases::window({1, 3, 3}, {0, 1, 1})};
  const ConvArrays given = random_arrays<float>(ConvReference(c));
  ConvArrays first = given;
  const std::vector<PlacedBox> boxes = {{testing_support::whole_desc(c, DType::kF32, 2)}};
  const ConvImpl& kokkos = *conv_impls(Pass::kBackwardWeights).back();
  testing_support::run_conv<float>(kokkos, Pass::kBackwardWeights, c, boxes, first);
  for (int i = 0; i < 5; ++i) {
    ConvArrays again = given;
    testing_support::run_conv<float>(kokkos, Pass::kBackwardWeights, c, boxes, again);
    EXPECT_EQ(first.w, again.w);
  }
}

}  // namespace
}  // namespace petaflow
