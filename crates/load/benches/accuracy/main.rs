//! Error of the reported percentiles: the engine and its client with a server that records, on the
//! same clock, when each response was sent.
//!
//!     cargo bench -p lucarne-load --bench accuracy
//!
//! The truth about an open loop needs only the time of the first arrival: the due time of arrival
//! `n` is `n / rate` later. A busy machine delays responses between server and client, so these are
//! measurements and not tests.
#![allow(clippy::unwrap_used)]

mod ask;
mod server;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ask::{Ask, RATE, constant_rate, first_due, run, stalled, trend, wrong};
use lucarne_load::{ExecutorConfig, Histogram};
use server::Server;

fn main() -> ExitCode {
    type Measurement = (&'static str, fn() -> Option<String>);
    let measurements: [Measurement; 3] = [
        ("percentiles of a target that stalls for 1.5 s", stall),
        ("time to the first byte, and from there to the last", phases),
        ("percentiles of two workers", two_workers),
    ];
    let mut exit_code = ExitCode::SUCCESS;
    for (name, measure) in measurements {
        println!("\n{name}:");
        if let Some(error) = measure() {
            println!("{error}");
            exit_code = ExitCode::FAILURE;
        }
    }
    exit_code
}

/// Returns the time from the due time of each request to its response, by the server's notes.
fn truth(server: &Server, first_due: Instant) -> Vec<Duration> {
    let due = |number: u64| first_due + Duration::from_secs_f64(number as f64 / RATE);
    let answered = server.answered();
    let waits = answered
        .iter()
        .map(|(number, at)| at.saturating_duration_since(due(*number)));
    waits.collect()
}

/// Compares the latencies of a target that stalls. The stall determines the highest percentiles.
fn stall() -> Option<String> {
    let (server, ask, outcome) = stalled();
    let notes = ask.notes.lock().unwrap().clone();
    let mut truth = truth(&server, first_due(&notes));
    let error = wrong(&trend(&outcome, "http_req_duration"), &mut truth);
    let mut from_start = Histogram::new();
    for asked in &notes {
        from_start.record(asked.exchange.finished - asked.exchange.started);
    }
    println!("the same from the actual start, for comparison:");
    wrong(&from_start, &mut truth);
    error
}

/// Compares the phases of requests with the delays of the first and of the last byte.
fn phases() -> Option<String> {
    let server = Server::start(ask::two_phases, None);
    let users = ExecutorConfig::ConstantVus {
        vus: 32,
        duration: Duration::from_secs(5),
        iterations: None,
    };
    let outcome = run(Arc::new(Ask::new(&server)), users, 1);
    let (mut waiting, mut receiving): (Vec<_>, Vec<_>) = server.phases().into_iter().unzip();
    println!("waiting:");
    let error = wrong(&trend(&outcome, "http_req_waiting"), &mut waiting);
    println!("receiving:");
    error.or(wrong(
        &trend(&outcome, "http_req_receiving"),
        &mut receiving,
    ))
}

/// Compares the latencies of two workers, which split the arrivals of one open loop.
fn two_workers() -> Option<String> {
    let server = Server::start(ask::one_phase, None);
    let ask = Arc::new(Ask::new(&server));
    let outcome = run(ask.clone(), constant_rate(60), 2);
    let notes = ask.notes.lock().unwrap().clone();
    let mut truth = truth(&server, first_due(&notes));
    wrong(&trend(&outcome, "http_req_duration"), &mut truth)
}
