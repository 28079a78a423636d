// climate_detection: boxes around storms and atmospheric rivers, learned from frames of which few may be marked (Kurth
// et al., SC17).
#include "climate_detection/reporter.hpp"
#include "climate_detection/task.hpp"
#include "program/run.hpp"

int main(int argc, char** argv) {
  petaflow::climate_detection::DetectionTask task;
  const petaflow::climate_detection::DetectionReporter reporter;
  return petaflow::run(argc, argv, task, reporter);
}
