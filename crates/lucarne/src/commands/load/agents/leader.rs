//! The course of a run with agents, as the leader sees it.

use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use lucarne_load::summary::{LastingFailure, SCHEMA};
use lucarne_load::threshold::Threshold;
use lucarne_load::{Metric, Note, Outcome, Part, Summary, Verdict};
use tokio::sync::mpsc;

use super::bundle::Bundle;
use super::link::{Link, LinkError, nanos};
use super::message::{Ending, News, Order};

/// Time from the order to start to the first arrival.
const LEAD: Duration = Duration::from_secs(1);
/// Largest difference of clocks without a warning, in milliseconds.
const CLOCKS: u64 = 50;

/// Consequence of a lost agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LostAgents {
    /// The run ends and fails
    #[default]
    Fail,
    /// The other agents continue, and the report states the reduced load
    Continue,
}

/// An agent that has joined.
pub(super) struct Joined {
    /// Address of the agent.
    pub(super) name: String,
    pub(super) link: Link<Order, News>,
}

/// A run with agents.
pub(super) struct Leader {
    agents: Vec<Agent>,
    /// Hash of the plan.
    plan: String,
    /// Thresholds of the plan that end the run early.
    thresholds: Vec<Threshold>,
    /// Indexes of the thresholds that have ended the run.
    aborted: Vec<usize>,
    lost_agents: LostAgents,
    /// Time of the first arrival.
    begin: Option<Instant>,
    /// Lost agents, and agents with another time, in words.
    losses: Vec<String>,
    clocks: Vec<String>,
    /// Outcome of an agent that could not begin.
    failure: Option<Outcome>,
    /// Prints a line of progress.
    print: fn(&str),
}

struct Agent {
    name: String,
    part: Part,
    link: Link<Order, News>,
    is_prepared: bool,
    /// Last summary of the part.
    summary: Option<Summary>,
    error: Option<String>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Finished,
    Lost,
}

impl Leader {
    /// Assigns the parts of a run to agents.
    pub(super) fn new(
        joined: Vec<Joined>,
        plan: String,
        thresholds: &[Threshold],
        lost_agents: LostAgents,
        print: fn(&str),
    ) -> Self {
        let parts = Part::all(joined.len() as u64);
        let agents = joined.into_iter().zip(parts).map(|(joined, part)| Agent {
            name: joined.name,
            part,
            link: joined.link,
            is_prepared: false,
            summary: None,
            error: None,
            state: State::Active,
        });
        let thresholds = thresholds.iter().filter(|it| it.abort_on_fail);
        Leader {
            agents: agents.collect(),
            plan,
            thresholds: thresholds.cloned().collect(),
            aborted: Vec::new(),
            lost_agents,
            begin: None,
            losses: Vec::new(),
            clocks: Vec::new(),
            failure: None,
            print,
        }
    }

    /// Executes the run until each agent has finished or is lost. `endings` are requests of the
    /// user to end the run.
    pub(super) async fn lead(
        mut self,
        bundle: &Bundle,
        mut endings: mpsc::Receiver<Ending>,
    ) -> Outcome {
        for agent in &self.agents {
            let order = Order::Prepare {
                part: agent.part.to_string(),
                bundle: Box::new(bundle.clone()),
            };
            agent.link.send(&order).await;
        }
        while self.agents.iter().any(Agent::is_active) {
            tokio::select! {
                (index, news) = next(&mut self.agents) => match news {
                    Ok(news) => self.receive(index, news).await,
                    Err(error) => self.lose(index, &error).await,
                },
                Some(ending) = endings.recv() => self.end(ending).await,
            }
        }
        let (outcome, agents) = self.conclude();
        for agent in agents {
            agent.link.close().await;
        }
        outcome
    }

    async fn receive(&mut self, index: usize, news: News) {
        let agent = &mut self.agents[index];
        match news {
            News::Prepared { plan, clock } => {
                agent.is_prepared = true;
                if plan != self.plan {
                    let (name, expected) = (&agent.name, &self.plan);
                    let error = format!(
                        "agent {name} has another plan: expected the hash {expected}, found {plan}"
                    );
                    return self.fail(Verdict::Configuration, error).await;
                }
                if clock.unsigned_abs() > CLOCKS {
                    self.warn_of_clock(index, clock.unsigned_abs());
                }
                self.start_if_prepared().await;
            }
            News::Progress(summary) => {
                if self.keep(index, *summary).await && self.is_one_second() {
                    self.judge().await;
                }
            }
            News::Finished { summary, error } => {
                agent.error = error.map(|error| format!("agent {}: {error}", agent.name));
                if self.begin.is_none() && self.failure.is_none() {
                    self.failure = Some(Outcome {
                        verdict: summary.verdict,
                        summary: (*summary).clone(),
                        error: agent.error.clone(),
                    });
                    self.end(Ending::Aborted).await;
                }
                if self.keep(index, *summary).await {
                    self.agents[index].state = State::Finished;
                    self.agents[index].link.send(&Order::Received).await;
                }
            }
            News::Refused(why) => {
                agent.state = State::Finished;
                let error = format!("agent {}: {why}", agent.name);
                self.fail(Verdict::Configuration, error).await;
            }
        }
    }

    /// Keeps the last summary of an agent. A summary that cannot be true loses the agent.
    async fn keep(&mut self, index: usize, summary: Summary) -> bool {
        if let Err(error) = summary.check() {
            self.lose(index, &error).await;
            return false;
        }
        self.agents[index].summary = Some(summary);
        true
    }

    /// Ends a run that cannot begin.
    async fn fail(&mut self, verdict: Verdict, error: String) {
        let note = Note {
            title: Note::NOT_BEGUN.into(),
            lines: vec![error.clone()],
        };
        let summary = Summary {
            schema: SCHEMA.into(),
            verdict,
            notes: vec![note],
            lasting_failures: Some(vec![LastingFailure::NotBegun]),
            ..Summary::default()
        };
        self.failure.get_or_insert(Outcome {
            summary,
            verdict,
            error: Some(error),
        });
        self.end(Ending::Aborted).await;
    }

    /// Ends the load of all agents.
    async fn end(&mut self, ending: Ending) {
        for agent in self.agents.iter().filter(|agent| agent.is_active()) {
            agent.link.send(&Order::End(ending)).await;
        }
    }

    async fn lose(&mut self, index: usize, why: &(impl std::fmt::Display + ?Sized)) {
        let agent = &mut self.agents[index];
        agent.state = State::Lost;
        // An agent that is alive after all must not continue its load, which nothing counts.
        agent.link.cut();
        let after = match self.begin {
            Some(begin) => format!("after {:.0?}", begin.elapsed()),
            None => "before the load".to_owned(),
        };
        let lost = format!(
            "agent {} (part {}) was lost {after}: {why}",
            agent.name, agent.part
        );
        (self.print)(&lost);
        self.losses.push(lost.clone());
        match (self.lost_agents, self.begin) {
            (LostAgents::Fail, None) => self.fail(Verdict::Crossed, lost).await,
            (LostAgents::Fail, Some(_)) => self.end(Ending::Aborted).await,
            (LostAgents::Continue, _) => self.start_if_prepared().await,
        }
    }

    fn warn_of_clock(&mut self, index: usize, apart: u64) {
        let name = &self.agents[index].name;
        let line = format!("the clock of agent {name} differs by {apart} ms");
        (self.print)(&line);
        self.clocks.push(line);
    }

    /// Starts the load when all agents are prepared.
    async fn start_if_prepared(&mut self) {
        let mut active = self.agents.iter().filter(|agent| agent.is_active());
        if self.begin.is_some() || self.failure.is_some() || !active.all(|it| it.is_prepared) {
            return;
        }
        self.begin = Some(Instant::now() + LEAD);
        let at = nanos(SystemTime::now() + LEAD);
        for agent in self.agents.iter().filter(|agent| agent.is_active()) {
            agent.link.send(&Order::Start { at }).await;
        }
    }

    /// Returns whether all active agents have sent their summaries of the same second. Otherwise,
    /// the sum lacks samples, and a rate in it is too low.
    fn is_one_second(&self) -> bool {
        let active = self.agents.iter().filter(|agent| agent.is_active());
        are_of_one_second(active.map(|agent| Some(agent.summary.as_ref()?.duration)))
    }

    /// Evaluates the thresholds that may end the run on the sum of all parts.
    async fn judge(&mut self) {
        let Some(elapsed) = self.begin.map(|begin| begin.elapsed()) else {
            return;
        };
        let Ok(sum) = Summary::merge(self.parts()) else {
            return;
        };
        (self.print)(&self.line(elapsed, &sum));
        let crossed = |threshold: &Threshold| {
            let result = threshold.evaluate(|metric, tags| sum.select(metric, tags), sum.duration);
            elapsed >= threshold.delay_abort_eval && !result.passed && result.observed.is_some()
        };
        let thresholds = self.thresholds.iter().enumerate();
        let crossed = thresholds.filter(|(_, threshold)| crossed(threshold));
        let crossed: Vec<usize> = crossed.map(|(index, _)| index).collect();
        if self.aborted.is_empty() && !crossed.is_empty() {
            self.aborted = crossed;
            self.end(Ending::Aborted).await;
        }
    }

    /// Returns the last summaries, in the order of the parts.
    fn parts(&self) -> Vec<Summary> {
        let agents = self.agents.iter();
        agents.filter_map(|agent| agent.summary.clone()).collect()
    }

    fn line(&self, elapsed: Duration, sum: &Summary) -> String {
        let count = |metric: &str| sum.total(metric).map_or(0, |metric| metric.samples());
        let failed = match sum.total("http_req_failed") {
            Some(Metric::Rate { good, .. }) => good,
            _ => 0,
        };
        let active = self.agents.iter().filter(|it| it.is_active()).count();
        let (iterations, requests) = (count("iterations"), count("http_reqs"));
        format!(
            "{}s {active} of {} agents, {iterations} iterations, {requests} requests, {failed} \
             failed",
            elapsed.as_secs(),
            self.agents.len()
        )
    }

    /// Returns the outcome of the run, and the agents.
    fn conclude(self) -> (Outcome, Vec<Agent>) {
        if let Some(failure) = self.failure {
            return (failure, self.agents);
        }
        let mut parts = self.parts();
        if let Some(first) = parts.first_mut() {
            for threshold in self.aborted.iter().map(|index| &self.thresholds[*index]) {
                let mut results = first.thresholds.iter_mut();
                let same = |it: &&mut lucarne_load::threshold::ThresholdResult| {
                    it.metric == threshold.key && it.expression == threshold.expression
                };
                if let Some(result) = results.find(same) {
                    result.aborted = true;
                }
            }
        }
        let lost = (!self.losses.is_empty()).then(|| self.losses.join("; "));
        let errors = self.agents.iter().find_map(|agent| agent.error.clone());
        let mut summary = Summary::merge(parts).unwrap_or_else(|_| Summary {
            schema: SCHEMA.into(),
            verdict: Verdict::Crossed,
            ..Summary::default()
        });
        let fails = self.lost_agents == LostAgents::Fail || summary.started == 0;
        if lost.is_some() && fails {
            let failures = summary.lasting_failures.get_or_insert_default();
            failures.push(LastingFailure::NotFinished);
            summary.verdict = summary.verdict.worse(Verdict::Crossed);
        }
        let reduced = if fails {
            Note::NOT_FINISHED
        } else {
            "Warning: agents were lost, and the load was reduced"
        };
        for (title, lines) in [
            (reduced, self.losses),
            ("Warning: the clocks of the agents differ", self.clocks),
        ] {
            if !lines.is_empty() {
                let title = title.to_owned();
                summary.notes.push(Note { title, lines });
            }
        }
        let outcome = Outcome {
            verdict: summary.verdict,
            summary,
            // The loss of one agent is why others were stopped.
            error: lost.filter(|_| fails).or(errors),
        };
        (outcome, self.agents)
    }
}

impl Agent {
    fn is_active(&self) -> bool {
        self.state == State::Active
    }
}

/// Returns whether the parts of a run have lasted equally long. A part without a summary has no
/// duration.
fn are_of_one_second(mut durations: impl Iterator<Item = Option<f64>>) -> bool {
    let range = durations.try_fold((f64::INFINITY, 0.0_f64), |(least, most), duration| {
        duration.map(|duration| (duration.min(least), duration.max(most)))
    });
    range.is_some_and(|(least, most)| most - least < 0.5)
}

/// Waits for the next message of an active agent.
async fn next(agents: &mut [Agent]) -> (usize, Result<News, LinkError>) {
    std::future::poll_fn(|context| {
        for (index, agent) in agents.iter_mut().enumerate() {
            if agent.is_active()
                && let Poll::Ready(news) = agent.link.poll_next(context)
            {
                return Poll::Ready((index, news));
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_judged_when_all_parts_have_the_same_second() {
        let same = |durations: &[Option<f64>]| are_of_one_second(durations.iter().copied());
        assert!(same(&[Some(2.01), Some(2.2)]));
        assert!(
            !same(&[Some(2.0), Some(1.0)]),
            "one part has one second less"
        );
        assert!(!same(&[Some(1.0), None]), "one part has no summary");
    }
}
