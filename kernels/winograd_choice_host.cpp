#include "kernels/winograd_choice.hpp"

#include <algorithm>

#include "kernels/winograd_blocks.hpp"
#include "kernels/winograd_phases.hpp"

namespace petaflow::winograd {
namespace {

std::string why_not_layer(const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  const Extent ones{1, 1, 1};
  const bool phases = has_phases(desc);
  if (g.kernel.h != g.kernel.w || g.kernel.h < 3 || g.kernel.h > (phases ? 10 : 5))
    return phases ? "with stride 2 for 3 x 3 to 10 x 10 taps only" : "for 3 x 3 to 5 x 5 taps only";
  if ((!phases && g.stride != ones) || (!is_dilated(desc) && g.dilation != ones) || g.groups != 1)
    return "without stride, dilation and groups only";
  // 3 x 3 taps in phases save two fifths of the products: 64 channels lose that again (gradient of weights 21.3 to 22.9
  // ms), 128 gain 5 to 15 % (Zen 4).
  if (constexpr std::int64_t kMany = 128;
      phases && g.kernel.h < 5 && !desc.transforms && std::min(desc.in_channels, desc.out_channels) < kMany)
    return fmt::format("with stride 2 and fewer than 5 x 5 taps for {} channels and more only", kMany);
  if (desc.in_channels % kLanes != 0 || desc.out_channels % kLanes != 0)
    return fmt::format("for multiples of {} channels only", kLanes);
  if (phases && std::min(desc.in.h, desc.in.w) < 2) return "without phases that have no pixel only";
  return {};
}

// Patches for each thread: transformed weights are two to four times as large, and are read, or summed, by each of them
// for each tile.  Half as many of 8 x 8 numbers, so that maps of 24 x 36 pixels, Tiramisu's smallest, take 5 x 5 taps
// so with two threads.  Not measured against other numbers.
std::int64_t fewest_patches(const Problem& p) { return p.edge == 8 ? 24 : 48; }

// Patches whose transforms, of source and target, take as much room as the transformed weights.
std::int64_t suited_patches(const Problem& p) { return p.sources * p.targets / (p.sources + p.targets); }

// Patches save a factor of four in multiplications (by 3 x 3 taps); from where on it is lost is not measured.
bool mostly_outside(const Problem& p) {
  return p.patches_h() * p.patches_w() * p.patch() * p.patch() > 2 * p.target_h * p.target_w;
}

// Gradients of x whose phases of an even number of taps would begin at different pixels.
bool phases_differ(Pass pass, const ConvDesc& desc) {
  const ConvGeometry& g = desc.geometry;
  return pass == Pass::kBackwardData && has_phases(desc) && g.kernel.h % 2 == 0 &&
         (begins_with_zero(g.pad_begin.h) || begins_with_zero(g.pad_begin.w));
}

std::string why_not_neighbours(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& first = tiles.front();
  if (std::string reason = why_not_layer(first); !reason.empty()) return reason;
  for (const ConvDesc& desc : tiles) {
    if (pass == Pass::kBackwardData && has_phases(desc)) {
      const Extent &pad = desc.geometry.pad_begin, &first_pad = first.geometry.pad_begin;
      if (begins_with_zero(pad.h) != begins_with_zero(first_pad.h)) return "tiles begin at even and at odd rows";
    }
    if (phases_differ(pass, desc)) return "with stride 2 an even number of taps for even padding only";
  }
  if (first.transforms) {
    const bool suits = *first.transforms == Transforms::kInTiles || *first.transforms == Transforms::kInLargePatches;
    return suits ? "" : "the layer has too few patches, or most of them lie outside";
  }
  const std::int64_t fewest = fewest_patches(Problem(first, pass == Pass::kBackwardData));
  std::int64_t rows = 0;  // of the largest tile
  for (const ConvDesc& desc : tiles) {
    const Problem p(desc, pass == Pass::kBackwardData);
    rows = std::max(rows, p.samples * p.d.targets * p.patches_h() * p.patches_w());
    if (mostly_outside(p)) return "most of its patches lie outside";
  }
  if (rows < fewest * first.threads)
    return fmt::format("{} patches of a tile are too few for {} thread(s), which take {} each", rows, first.threads,
                       fewest);
  return {};
}

// Layers of fewer patches than tiles want, whose weights are transformed a piece at a time: from so many patches, or
// from transformed weights that exceed the L1 caches (Emerald Rapids, two threads, tiles or whole by sums of products
// against this: 512 channels on 9 patches 1.82 to 1.71 ms forward, 128 on 49 0.64 to 0.41, 256 on 36 1.92 to 1.08,
// 1,024 to 1,280 44 to 20; where tiles suit, they are up to 1.4 times as fast).
constexpr std::int64_t kFewestStreamed = 16, kLeastStreamed = std::int64_t{1} << 20;
// Transformed weights that far exceed the last cache pay from more patches on: 5 x 5 taps with stride 2, 512 to 768
// channels, 216 MiB, Zen 4, two threads, whole against this: on 144 patches 168, 174, 134 to 162, 154, 96 ms (forward,
// gradients of x, of weights), in bf16 88, 98, 81 to 69, 74, 53; on 288 patches 178, 188, 249 to 309, 274, 167; on 576
// gradients of weights 495 to 504.
constexpr std::int64_t kFarWeights = std::int64_t{128} << 20, kMostFar = 200, kMostFarOfWeights = 500;

}  // namespace

// Whether these are such a layer, whole, with a block of targets for each thread.  3 x 3 taps with stride 2 gain
// nothing (256 channels, 48 x 72 pixels, Zen 4, by sums of products against this: 4.4, 4.6, 5.6 to 4.2, 4.3, 4.3 ms, 24
// x 36 pixels 2.1, 2.2, 2.5 to 2.7, 2.8, 2.8, in bf16 2.2, 2.3, 2.5 to 2.3, 2.6, 2.5).
bool is_streamed(Pass pass, std::span<const ConvDesc> tiles) {
  const ConvDesc& first = tiles.front();
  const bool planar = first.in.d == 1 && first.geometry.kernel.d == 1 && first.geometry.pad_begin.d == 0;
  if (tiles.size() > 1 || !planar || taps_of(first) < 3) return false;
  if (!why_not_layer(first).empty() || phases_differ(pass, first)) return false;
  if (first.transforms) return *first.transforms == Transforms::kWhole;
  const Problem p(first, pass == Pass::kBackwardData, edge_of(taps_of(first)));
  const std::int64_t patches = p.samples * p.d.targets * p.patches_h() * p.patches_w(),
                     far = pass == Pass::kBackwardWeights ? kMostFarOfWeights : kMostFar,
                     most = std::max(std::min(fewest_patches(p) * first.threads, suited_patches(p)),
                                     p.transformed_bytes() > kFarWeights ? far : 0);
  return p.transformed_bytes() >= kLeastStreamed && p.targets >= lanes::kBlock * first.threads &&
         patches >= kFewestStreamed && patches < most && !mostly_outside(p);
}

std::string why_not(Pass pass, std::span<const ConvDesc> tiles) {
  for (const ConvDesc& tile : tiles) {
    if (!is_dilated(tile)) break;  // none is
    if (std::string reason = why_no_phases(tile); !reason.empty()) return reason;
  }
  return is_streamed(pass, tiles) ? "" : why_not_neighbours(pass, tiles);
}

TileWishes wishes(Pass pass, const ConvDesc& whole) {
  if (!why_not(pass, {&whole, 1}).empty()) return {};
  const Problem p(whole, pass == Pass::kBackwardData);
  if (is_streamed(pass, {&whole, 1})) return {1, 1, 1, Transforms::kWhole};
  const Transforms in_tiles = p.edge > edge_of(p.taps) ? Transforms::kInLargePatches : Transforms::kInTiles;
  std::int64_t fewest = fewest_patches(p);
  if (is_dilated(whole)) {
    const std::int64_t r = whole.geometry.dilation.h, across = r * r * p.patches_w(),
                       of_sample = across * p.patches_h(),
                       rows = pass == Pass::kBackwardData ? whole.in.h : whole.out.h;
    // Few patches: whole planes, over whose blocks the threads divide themselves (eight times the fewest: not measured
    // against other numbers).
    if (of_sample < 8 * fewest * whole.threads)
      return {r * p.patch(), rows, ceil_div(fewest * whole.threads, of_sample), in_tiles};
    return {r * p.patch(), ceil_div(fewest, across) * r * p.patch(), 1, in_tiles};
  }
  const std::int64_t of_plane = p.patches_h() * p.patches_w(), samples = ceil_div(fewest, p.d.targets * of_plane),
                     rows = p.patch() * (p.writes.size() > 1 ? 2 : 1);  // of a patch: those of x, or of y
  // Tiles transform the planes that they share with their neighbours again, kernel.d - 1 of them, so they hold twice as
  // many or more (not measured against other numbers), and should not cut patches.
  if (whole.out.d > 1) return {1, std::max(2 * whole.geometry.kernel.d, ceil_div(fewest, of_plane)), samples, in_tiles};
  if (pass == Pass::kBackwardWeights && p.transformed_bytes() > kBlockBytes) {
    // Where each thread has fewer, the whole tensor, so that there is one sum.
    const std::int64_t suited = suited_patches(p);
    if (p.samples * of_plane < suited * whole.threads) return {rows, whole.out.h, p.samples, in_tiles};
    fewest = std::max(fewest, suited);
  }
  // Where the transformed weights exceed the last cache they come from memory for every tile (3 x 3 taps with stride 2,
  // 256 channels on 192 x 576 pixels, 37 MB: forward 120 to 108 ms, as whole).
  if (constexpr std::int64_t kFar = std::int64_t{32} << 20; p.transformed_bytes() > kFar)
    fewest = std::max(fewest, suited_patches(p));
  return {rows, ceil_div(fewest, p.patches_w()) * rows, samples, in_tiles};
}

}  // namespace petaflow::winograd
