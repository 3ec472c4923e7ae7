//! Faults of every class, one after the other, on a working log. After each fault the log is
//! started again and audited.
//!
//! By default, the tests run the first cases of each class with a fixed seed. `LUCARNE_TORTURE=600`
//! runs as many cases as possible in 600 s for each class, with a new seed that it prints (`cargo
//! xtask torture` sets it). `LUCARNE_SEED` repeats a run, and `LUCARNE_CASE` one case of it.

mod calls;
mod clock;
mod hung;
mod life;
mod power_cuts;
mod requests;
mod soak;
mod statements;

use std::time::{Duration, Instant};

use rand::{SeedableRng, rngs::StdRng};

/// The default seed of the cases.
const SEED: u64 = 1;

/// The cases of one class, each with its own random choices.
struct Cases {
    class: &'static str,
    seed: u64,
    number: u64,
    only: Option<u64>,
    most: u64,
    until: Option<Instant>,
    started: Instant,
}

impl Cases {
    /// Returns `few` cases, or more if the environment allows more time.
    fn new(class: &'static str, few: u64) -> Self {
        let number = |name: &str| {
            let value = std::env::var(name).ok()?;
            Some(
                value
                    .parse::<u64>()
                    .unwrap_or_else(|_| panic!("{name} is a number")),
            )
        };
        let started = Instant::now();
        let time = number("LUCARNE_TORTURE").map(Duration::from_secs);
        Self {
            class,
            seed: number("LUCARNE_SEED").unwrap_or_else(|| match time {
                Some(_) => rand::random(),
                None => SEED,
            }),
            number: 0,
            only: number("LUCARNE_CASE"),
            most: if time.is_some() { u64::MAX } else { few },
            until: time.map(|time| started + time),
            started,
        }
    }

    /// Returns a generator for choices that several cases share.
    fn shared_rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.seed)
    }

    /// Returns the generator of the next case; `None` after the last.
    fn next(&mut self) -> Option<StdRng> {
        if self.until.is_some_and(|until| Instant::now() > until) {
            return None;
        }
        self.number = match self.only {
            None => self.number + 1,
            Some(only) if self.number == 0 => only,
            Some(_) => return None,
        };
        let class = self.class.bytes().map(u64::from);
        let class = class.fold(self.seed, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte)
        });
        let next = self.number <= self.most || self.only.is_some();
        next.then(|| StdRng::seed_from_u64(class.wrapping_add(self.number)))
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        let Self {
            class,
            seed,
            number,
            ..
        } = self;
        if std::thread::panicking() {
            println!("{class}: LUCARNE_SEED={seed} LUCARNE_CASE={number} fails");
        } else if *number > 0 {
            let took = self.started.elapsed().as_secs();
            let cases = if self.only.is_some() { 1 } else { *number - 1 };
            println!("torture: {class}: {cases} cases, 0 lost, {took} s, LUCARNE_SEED={seed}");
        }
    }
}
