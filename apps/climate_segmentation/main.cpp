// climate_segmentation: tropical cyclones and atmospheric rivers in the atmosphere, pixel by pixel (Kurth et al.,
// SC18).
#include "climate_segmentation/reporter.hpp"
#include "climate_segmentation/task.hpp"
#include "program/run.hpp"

int main(int argc, char** argv) {
  petaflow::climate_segmentation::SegmentationTask task;
  const petaflow::climate_segmentation::SegmentationReporter reporter;
  return petaflow::run(argc, argv, task, reporter);
}
