// Targets to be predicted for a sample: up to kMaxTargets named tensors of fixed size, which travel beside its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/shape.hpp"

namespace petaflow {

inline constexpr std::size_t kMaxTargets = 8;  // of a sample

enum class TargetKind : std::uint8_t {
  kClass,     // int32; -1: not known
  kNumbers,   // (count) f32
  kClassMap,  // (D, H, W) uint8, a class per pixel
  kBoxes,     // int32: how many there are, -1: not known; then room for `count` boxes, (count, fields) f32
  kNone       // nothing: what is to be small by itself
};

/// Name, kind and size of a target, the same for all samples of a set.
struct TargetSpec {
  std::string name;
  TargetKind kind = TargetKind::kClass;
  std::int64_t classes = 0;  // of a class or a map
  Extent extent = {};        // of a map
  std::int64_t count = 0;    // of numbers, or of boxes at most
  std::int64_t fields = 0;   // of a box

  static TargetSpec label(std::string name, std::int64_t classes) {
    return {std::move(name), TargetKind::kClass, classes};
  }
  static TargetSpec numbers(std::string name, std::int64_t count) {
    return {std::move(name), TargetKind::kNumbers, 0, {}, count};
  }
  static TargetSpec class_map(std::string name, std::int64_t classes, const Extent& extent) {
    return {std::move(name), TargetKind::kClassMap, classes, extent};
  }
  static TargetSpec boxes(std::string name, std::int64_t most, std::int64_t fields) {
    return {std::move(name), TargetKind::kBoxes, 0, {}, most, fields};
  }
  static TargetSpec none() { return {"", TargetKind::kNone}; }

  /// Size of one sample's target.
  std::size_t bytes() const {
    switch (kind) {
      case TargetKind::kClass:
        return sizeof(std::int32_t);
      case TargetKind::kNumbers:
        return static_cast<std::size_t>(count) * sizeof(float);
      case TargetKind::kClassMap:
        return static_cast<std::size_t>(extent.volume());
      case TargetKind::kBoxes:
        return sizeof(std::int32_t) + static_cast<std::size_t>(count * fields) * sizeof(float);
      case TargetKind::kNone:
        break;
    }
    return 0;
  }
  bool operator==(const TargetSpec&) const = default;
};

/// "one of 3 classes", "4 numbers", "a map of 3 classes, 64x64", "at most 20 boxes of 5 numbers".
inline std::string describe(const TargetSpec& target) {
  switch (target.kind) {
    case TargetKind::kClass:
      return fmt::format("one of {} classes", target.classes);
    case TargetKind::kNumbers:
      return fmt::format("{} numbers", target.count);
    case TargetKind::kClassMap:
      return fmt::format("a map of {} classes, {}", target.classes, to_string(target.extent));
    case TargetKind::kBoxes:
      return fmt::format("at most {} boxes of {} numbers", target.count, target.fields);
    case TargetKind::kNone:
      break;
  }
  return "";
}

}  // namespace petaflow
