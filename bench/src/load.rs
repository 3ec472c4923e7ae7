//! Load generator: one thread, one epoll, prepared requests. The generator has its own core and
//! must offer more load than any server on another core can process.

use std::{
    collections::{BTreeMap, VecDeque},
    io, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};

use crate::connection::{Connection, Pieces};
use crate::endpoint::Endpoint;

/// A source of requests.
pub(crate) trait Requests {
    /// Returns the next request and its number, or `None` after the last. The number has the bit
    /// [`REPEATED`] if the request is not new work for the server.
    fn next(&mut self) -> Option<(u32, Pieces<'_>)>;
}

/// Marks the number of a request that repeats an earlier request.
pub(crate) const REPEATED: u32 = 1 << 31;

/// The times at which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrivals {
    /// Each connection sends its next request immediately after a response.
    Closed,
    /// A fixed number of requests per second, independent of the responses. Latency counts from the
    /// intended start of a request.
    Open(f64),
}

/// The amount of load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) arrivals: Arrivals,
    /// Warm-up before the measured time.
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
}

/// Results of the measured time only.
pub(crate) struct Outcome {
    /// Length of the measured time in seconds.
    pub(crate) seconds: f64,
    /// Number of responses with status 200.
    pub(crate) answered: u64,
    /// Number of responses to requests that were new work.
    pub(crate) new: u64,
    /// Times from the intended start to the response, in microseconds, for status 200 only.
    pub(crate) latency: Histogram<u64>,
    /// Numbers of responses with another status; 0 stands for broken connections.
    pub(crate) failures: BTreeMap<u16, u64>,
    /// Number of new entries of the whole run, including the warm-up.
    pub(crate) new_in_all: u64,
    /// CPU of the load generator's process per response, in microseconds.
    pub(crate) own_cpu_us: f64,
    /// The longest time without a response with status 200.
    pub(crate) silence: Duration,
    /// True if the requests ran out before the end of the measured time.
    pub(crate) cut_short: bool,
}

/// Runs the load. `mark` is called when the measured time begins and ends.
pub(crate) fn run(
    endpoint: impl Into<Endpoint>,
    plan: &Plan,
    requests: &mut dyn Requests,
    mark: &mut dyn FnMut() -> Result<()>,
) -> Result<Outcome> {
    let mut load = Load::open(endpoint.into(), plan)?;
    let begin = Instant::now();
    load.due = begin;
    load.send_due(plan, requests);
    load.until(begin + plan.warm_up, plan, requests)?;
    load.outcome.reset();
    let own = lucarne_testkit::usage(std::process::id())?.cpu_us;
    mark()?;
    let start = Instant::now();
    load.until(start + plan.duration, plan, requests)?;
    let mut outcome = load.outcome.clone_out();
    outcome.seconds = start.elapsed().as_secs_f64();
    mark()?;
    let own = lucarne_testkit::usage(std::process::id())?.cpu_us - own;
    outcome.own_cpu_us = own as f64 / outcome.answered.max(1) as f64;
    // Waits for the requests in flight, so that the size of the log can be compared.
    load.drain(Duration::from_secs(10), plan)?;
    outcome.new_in_all = load.outcome.new_in_all;
    Ok(outcome)
}

struct Load {
    endpoint: Endpoint,
    poll: Poll,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    due: Instant,
    outcome: Tally,
    buffer: Vec<u8>,
}

struct Tally {
    answered: u64,
    new: u64,
    new_in_all: u64,
    latency: Histogram<u64>,
    failures: BTreeMap<u16, u64>,
    last: Instant,
    silence: Duration,
    exhausted: bool,
}

impl Tally {
    fn reset(&mut self) {
        self.latency.reset();
        self.failures.clear();
        (self.answered, self.new) = (0, 0);
        (self.last, self.silence) = (Instant::now(), Duration::ZERO);
    }

    fn clone_out(&self) -> Outcome {
        Outcome {
            seconds: 0.0,
            answered: self.answered,
            new: self.new,
            latency: self.latency.clone(),
            failures: self.failures.clone(),
            new_in_all: self.new_in_all,
            own_cpu_us: 0.0,
            silence: self.silence.max(self.last.elapsed()),
            cut_short: self.exhausted,
        }
    }

    fn fail(&mut self, status: u16) {
        *self.failures.entry(status).or_default() += 1;
    }
}

impl Load {
    fn open(endpoint: Endpoint, plan: &Plan) -> Result<Self> {
        let poll = Poll::new()?;
        let mut connections = Vec::with_capacity(plan.connections);
        for number in 0..plan.connections {
            let mut connection = Connection::open(&endpoint)
                .with_context(|| format!("connection {number} to {}", endpoint.address))?;
            register(&poll, &mut connection, number)?;
            connections.push(connection);
        }
        Ok(Self {
            endpoint,
            poll,
            idle: (0..connections.len()).collect(),
            connections,
            due: Instant::now(),
            outcome: Tally {
                answered: 0,
                new: 0,
                new_in_all: 0,
                latency: Histogram::new_with_bounds(1, 600_000_000, 3)?,
                failures: BTreeMap::new(),
                last: Instant::now(),
                silence: Duration::ZERO,
                exhausted: false,
            },
            buffer: vec![0; 256 << 10],
        })
    }

    /// Continues until `end`.
    fn until(&mut self, end: Instant, plan: &Plan, requests: &mut dyn Requests) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.outcome.exhausted {
            let now = Instant::now();
            if now >= end {
                break;
            }
            let mut wake = end;
            if let Arrivals::Open(_) = plan.arrivals {
                self.send_due(plan, requests);
                if !self.idle.is_empty() {
                    wake = wake.min(self.due);
                }
            }
            self.wait(&mut events, wake)?;
            for event in &events {
                self.progress(event.token().0, event.is_writable(), requests, plan)?;
            }
        }
        Ok(())
    }

    /// Sends every request whose start time has come, if a connection is idle.
    fn send_due(&mut self, plan: &Plan, requests: &mut dyn Requests) {
        while let Some(&number) = self.idle.front() {
            let due = match plan.arrivals {
                Arrivals::Closed => Instant::now(),
                Arrivals::Open(_) if self.due > Instant::now() => return,
                Arrivals::Open(rate) => {
                    let due = self.due;
                    self.due += Duration::from_secs_f64(1.0 / rate);
                    due
                }
            };
            self.idle.pop_front();
            if !self.send(number, due, requests) {
                return;
            }
        }
    }

    fn send(&mut self, number: usize, due: Instant, requests: &mut dyn Requests) -> bool {
        let Some((id, pieces)) = requests.next() else {
            self.outcome.exhausted = true;
            return false;
        };
        if self.connections[number].send(id, due, pieces).is_err() {
            self.replace(number);
            self.idle.push_back(number);
        }
        true
    }

    /// Waits for sockets, at most until `wake`. The resolution of epoll is a millisecond, so the
    /// last millisecond is slept in short steps.
    fn wait(&mut self, events: &mut Events, wake: Instant) -> Result<()> {
        let left = wake.saturating_duration_since(Instant::now());
        let whole = Duration::from_millis(left.as_millis() as u64);
        if whole.is_zero() {
            thread::sleep(left.min(Duration::from_micros(100)));
        }
        match self.poll.poll(events, Some(whole)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn progress(
        &mut self,
        number: usize,
        writable: bool,
        requests: &mut dyn Requests,
        plan: &Plan,
    ) -> Result<()> {
        let connection = &mut self.connections[number];
        let step = if writable {
            connection.writable()
        } else {
            Ok(())
        };
        match step.and_then(|()| connection.readable(&mut self.buffer)) {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => {
                if let Some((id, due)) = connection.request.take() {
                    self.answered(id, due, status);
                }
            }
            Err(_) => {
                let had_request = connection.request.is_some();
                self.replace(number);
                if !had_request {
                    return Ok(()); // the connection is already idle
                }
            }
        }
        if plan.arrivals == Arrivals::Closed {
            self.send(number, Instant::now(), requests);
        } else {
            self.idle.push_back(number);
        }
        Ok(())
    }

    fn answered(&mut self, id: u32, due: Instant, status: u16) {
        let tally = &mut self.outcome;
        if status != 200 {
            return tally.fail(status);
        }
        let now = Instant::now();
        tally.silence = tally
            .silence
            .max(now - std::mem::replace(&mut tally.last, now));
        let new = u64::from(id & REPEATED == 0);
        tally.answered += 1;
        tally.new += new;
        tally.new_in_all += new;
        let micros = due.elapsed().as_micros() as u64;
        tally.latency.saturating_record(micros);
    }

    /// Counts a broken connection as a failure, and opens a new connection.
    fn replace(&mut self, number: usize) {
        self.outcome.fail(0);
        let Ok(mut fresh) = Connection::open(&self.endpoint) else {
            return;
        };
        if register(&self.poll, &mut fresh, number).is_ok() {
            self.connections[number] = fresh;
        }
    }

    fn drain(&mut self, patience: Duration, plan: &Plan) -> Result<()> {
        let end = Instant::now() + patience;
        let mut events = Events::with_capacity(1024);
        let open = Plan {
            arrivals: Arrivals::Open(1.0),
            ..*plan
        };
        while self
            .connections
            .iter()
            .any(|connection| connection.request.is_some())
        {
            ensure!(
                Instant::now() < end,
                "some requests have no response after {patience:?}"
            );
            self.wait(&mut events, end)?;
            for event in &events {
                self.progress(event.token().0, event.is_writable(), &mut Nothing, &open)?;
            }
        }
        Ok(())
    }
}

/// A source without requests.
struct Nothing;

impl Requests for Nothing {
    fn next(&mut self) -> Option<(u32, Pieces<'_>)> {
        None
    }
}

fn register(poll: &Poll, connection: &mut Connection, number: usize) -> io::Result<()> {
    let interest = Interest::READABLE | Interest::WRITABLE;
    poll.registry()
        .register(connection.stream.socket(), Token(number), interest)
}
