// shapes: finds a shape in a noisy image, as the smallest application that has maps and two outputs.
#include "program/run.hpp"
#include "shapes/reporter.hpp"
#include "shapes/task.hpp"

int main(int argc, char** argv) {
  petaflow::shapes::ShapesTask task;
  const petaflow::shapes::ShapesReporter reporter;
  return petaflow::run(argc, argv, task, reporter);
}
