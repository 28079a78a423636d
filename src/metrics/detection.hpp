// How well boxes are found: each is compared with the known ones of its frame, and precision is averaged over recall.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "metrics/evaluator.hpp"
#include "metrics/metric.hpp"

namespace petaflow {

/// A rectangle [ymin, ymax) x [xmin, xmax) of a kind, in pixels, known or found.
struct FoundBox {
  float ymin = 0, xmin = 0, ymax = 0, xmax = 0;
  std::int32_t kind = 0;
  float confidence = 1;
  bool operator==(const FoundBox&) const = default;
};

/// Intersection over union of the areas of two boxes, whatever their kinds; 0 where both are empty.
/// @param period  width after which x begins anew, which is at least that of each box; 0: it does not
double box_iou(const FoundBox& a, const FoundBox& b, double period);

/// Non-maximum suppression: of boxes of a kind whose intersection over union is larger than `most_overlap` the one of
/// the highest confidence remains.  The result is sorted by falling confidence, equals in the order that they had.
std::vector<FoundBox> without_doubles(std::vector<FoundBox> boxes, double most_overlap, double period);

/// A found box in the order of falling confidence.
struct RankedBox {
  bool hit = false;
  double times = 1;  // that it counts
};

/// Average precision: the area below precision over recall, where the precision of a recall is the highest at this
/// recall or more (Everingham et al., IJCV 111 (2015) 98, section 4.1; all points).  NaN where no box is known.
/// @param known  number of boxes that there are to find
double average_precision(std::span<const RankedBox> boxes, double known);

struct DetectionRules {
  std::int64_t kinds = 1;
  std::vector<double> thresholds = {0.1, 0.5};  // intersections over union from which on a box is found, at most 32
  double period = 0;                            // of x (box_iou)
};

/// A found box after the comparison.
struct BoxMatch {
  std::int64_t frame = 0;
  std::int32_t order = 0, kind = 0;  // order: among the found boxes of the frame
  float confidence = 0;
  std::uint32_t hits = 0;  // bit t: with thresholds[t]
};

/// All that the metrics need of a data set.
struct ComparedBoxes {
  std::vector<BoxMatch> matches;  // by frame and order
  std::vector<float> known;       // (N, kinds): boxes of each kind in frames 0 to N - 1
};

/// Boxes of a data set, compared frame by frame on all ranks.
class BoxComparison {
 public:
  explicit BoxComparison(DetectionRules rules) : rules_(std::move(rules)), known_(rules_.kinds) {}

  /// Takes up a frame.  The found boxes come by falling confidence (without_doubles()); each is a hit where its largest
  /// intersection over union with a known box of its kind that is not taken reaches the threshold; the known box is
  /// taken then.  Throws a failure where a kind is none.
  void add(std::int64_t frame, std::span<const FoundBox> found, std::span<const FoundBox> known);
  /// On all ranks: on rank 0 those of all frames, the same whatever the number of ranks; empty elsewhere.
  ComparedBoxes merge(Communicator& comm) const;

 private:
  DetectionRules rules_;
  std::vector<BoxMatch> matches_;
  SampleRows known_;
};

struct BootstrapOptions {
  int replicas = 100;  // over frames; 0: without errors
  std::uint64_t seed = 0;
};

struct DetectionReport {
  struct AveragePrecision {
    Metric mean;                // over the kinds that have known boxes
    std::vector<Metric> kinds;  // none where no box of it is known
  };
  std::int64_t frames = 0;
  std::vector<AveragePrecision> at;  // each threshold
  std::vector<double> known, found;  // boxes of each kind
};

/// All metrics with bootstrap errors.  Replica r draws as many frames as there are, keyed by (seed, r) alone.
DetectionReport evaluate_detection(const ComparedBoxes& boxes, const DetectionRules& rules,
                                   const BootstrapOptions& options = {});

}  // namespace petaflow
