// What a run leaves in its folder when its training has ended, for reports.
#pragma once

#include "program/job.hpp"
#include "train/trainer.hpp"

namespace petaflow {

/// On rank 0, performance.json: how the training ended, rates, where the time went, the stages.
/// @param peak_gflops  of the threads of rank 0, in the precision of the run
void write_performance(const Job& job, const FitResult& result, TrainStep& step, double peak_gflops);

/// On all ranks, evaluation.json: the trained network judged on data.test where its files are there, else on
/// `validation`; nothing where there is neither.  A test set that cannot be read is a warning: the run itself is done.
/// @return  the request that ended the judgement before it was through; the file is not written then
StopRequest write_evaluation(Job& job, Network& network, const Objective& loss, const Dataset* validation);

}  // namespace petaflow
