//! Three instances of one log: their share of the work, the cost of a forwarded entry, and the time
//! without SCTs when the leader dies.

mod group;

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use lucarne_testkit::{Place, Signal};

use self::group::{Group, LOG, Settings};
use crate::{
    Common,
    add_chain::wait,
    chains::{Issuer, Store, Submissions},
    load::{self, Arrivals, Outcome, Plan},
    table::{Row, failures, latencies, print},
};

/// Number of instances of the log.
const COUNT: usize = 3;
/// Seconds of load before the measured time.
const WARM_UP: f64 = 2.0;

#[derive(Clone, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    measurement: Measurement,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Clone, Subcommand)]
enum Measurement {
    /// Measure the CPU of one process, and of three at the same load
    Shares,
    /// Measure the CPU of the leader for an entry that another instance forwards
    Forwarded,
    /// Measure the time without SCTs after the leader was killed
    Takeover {
        /// Number of leaders to kill
        #[arg(long, default_value_t = 30)]
        rounds: usize,
        /// Send SIGTERM instead of SIGKILL, so that the leader hands over
        #[arg(long)]
        hand_over: bool,
    },
}

#[derive(Clone, Args)]
struct LoadOptions {
    /// Number of new entries per second
    #[arg(long, default_value_t = 1000.0, global = true)]
    rate: f64,
    /// Duration of each measured run in seconds
    #[arg(long, default_value_t = 6.0, global = true)]
    duration: f64,
    /// Number of keep-alive HTTP/1.1 connections
    #[arg(long, default_value_t = 3000, global = true)]
    connections: usize,
    /// Period of the log in milliseconds
    #[arg(long, default_value_t = 200, global = true)]
    period: u64,
    /// CA that signs the leaves
    #[arg(long, default_value = "rsa", global = true)]
    issuer: Issuer,
    /// Use a lock in MariaDB and data in MinIO, instead of both in a bucket of versitygw
    #[arg(long, global = true)]
    mariadb: bool,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let bench = Bench {
        common,
        options: &options.load,
        store: Store::open(&common.store)?,
        place: if options.load.mariadb {
            wait(Place::s3_and_mariadb())??
        } else {
            wait(Place::s3_alone())??
        },
    };
    match options.measurement {
        Measurement::Shares => bench.shares(),
        Measurement::Forwarded => bench.forwarded(),
        Measurement::Takeover { rounds, hand_over } => bench.takeover(rounds, hand_over),
    }
}

struct Bench<'a> {
    common: &'a Common,
    options: &'a LoadOptions,
    store: Store,
    place: Place,
}

/// Result of one load on a group.
struct Loaded {
    outcomes: Vec<Outcome>,
    /// CPU of each process in the measured time, in microseconds.
    cpu_us: Vec<f64>,
}

impl Loaded {
    /// Returns the number of new entries in the measured time.
    fn entries(&self) -> f64 {
        self.outcomes.iter().map(|it| it.new as f64).sum()
    }

    /// Returns the CPU of each process for each new entry of the log, in microseconds.
    fn per_entry(&self) -> Vec<f64> {
        self.cpu_us.iter().map(|cpu| cpu / self.entries()).collect()
    }
}

impl Bench<'_> {
    fn start(&self, count: usize) -> Result<Group> {
        let settings = Settings {
            binary: &std::path::absolute(&self.common.binary)?,
            core: self.common.server_core,
            place: &self.place,
            roots: &self.store.pki.roots_pem(),
            period: self.options.period,
        };
        Group::start(&settings, count)
    }

    /// Returns the length of the load of one run, in seconds.
    fn seconds(&self) -> f64 {
        WARM_UP + self.options.duration
    }

    /// Returns leaves for `seconds` seconds of load, each once.
    fn submissions(&self, seconds: f64) -> Result<Submissions> {
        let count = (seconds * self.options.rate) as usize + 100;
        let path = format!("/{LOG}/ct/v1/add-chain");
        self.store
            .submissions(self.options.issuer, count, "127.0.0.1", &path, 0.0)
    }

    /// Returns the load of one of `generators` load generators.
    fn plan(&self, generators: usize) -> Plan {
        Plan {
            connections: self.options.connections / generators,
            arrivals: Arrivals::Open(self.options.rate / generators as f64),
            warm_up: Duration::from_secs_f64(WARM_UP),
            duration: Duration::from_secs_f64(self.options.duration),
        }
    }

    /// Loads these members at the same time, each with a part of the leaves.
    fn load(
        &self,
        group: &Group,
        plan: &Plan,
        work: Vec<(usize, &mut Submissions)>,
    ) -> Result<Loaded> {
        let mut marks = Vec::new();
        let first = Some(&mut marks);
        let outcomes: Result<Vec<Outcome>> = thread::scope(move |scope| {
            let mut first = first;
            let loads: Vec<_> = work
                .into_iter()
                .map(|(member, requests)| {
                    let (endpoint, mut marks) = (group.endpoint(member), first.take());
                    scope.spawn(move || {
                        let mut mark = || -> Result<()> {
                            if let Some(marks) = &mut marks {
                                marks.push(group.usage()?);
                            }
                            Ok(())
                        };
                        load::run(endpoint, plan, requests, &mut mark)
                    })
                })
                .collect();
            let join = |load: thread::ScopedJoinHandle<'_, Result<Outcome>>| {
                let panicked = |_| anyhow::anyhow!("a load generator panicked");
                load.join().map_err(panicked)?
            };
            loads.into_iter().map(join).collect()
        });
        let outcomes = outcomes?;
        let cpu = marks[0].iter().zip(&marks[1]);
        Ok(Loaded {
            outcomes,
            cpu_us: cpu
                .map(|(before, after)| (after.cpu_us - before.cpu_us) as f64)
                .collect(),
        })
    }

    fn title(&self, what: &str) -> String {
        let options = self.options;
        format!(
            "{what}: {:.0}/s, {} issuer, period {} ms, {:.0} s, {:?}",
            options.rate,
            options.issuer.name(),
            options.period,
            options.duration,
            self.place
        )
    }

    fn shares(&self) -> Result<()> {
        let mut all = self.submissions(self.seconds())?;
        let one = self.load(&self.start(1)?, &self.plan(1), vec![(0, &mut all)])?;
        let mut parts: Vec<_> = (0..COUNT)
            .map(|number| anyhow::Ok(self.submissions(self.seconds())?.part(number, COUNT)))
            .collect::<Result<_>>()?;
        let group = self.start(COUNT)?;
        let leader = group.leader()?;
        let three = self.load(
            &group,
            &self.plan(COUNT),
            parts.iter_mut().enumerate().collect(),
        )?;
        let (alone, each) = (one.per_entry()[0], three.per_entry());
        let mut rows = vec![Row::new(
            "one process: CPU per entry",
            format!("{alone:.1} µs"),
        )];
        for (number, cpu) in each.iter().enumerate() {
            let role = ["follows", "leads"][usize::from(number == leader)];
            let what = format!("instance {number} of three, {role}: CPU per entry of the log");
            rows.push(Row::new(what, format!("{cpu:.1} µs")));
        }
        let (sum, most) = (
            each.iter().sum::<f64>(),
            each.iter().copied().fold(0.0, f64::max),
        );
        rows.push(Row::at_least(
            "throughput of three, if a balancer levels their CPU",
            COUNT as f64 * alone / sum,
            "times one",
            2.7,
        ));
        rows.push(Row::new(
            "throughput of three, if each gets a third of the submissions",
            format!("{:.2} times one", alone / most),
        ));
        for (name, loaded) in [("one", &one), ("three", &three)] {
            for outcome in &loaded.outcomes {
                rows.push(Row::new(format!("{name}: latency"), latencies(outcome)));
                rows.push(Row::new(format!("{name}: failures"), failures(outcome)));
            }
        }
        print(&self.title("Shares of the work"), &rows);
        Ok(())
    }

    /// Forwards half of the entries by one follower, and then the other half by both followers at
    /// the same time. The second copy of an entry already has an index, so it costs the leader only
    /// the transfer.
    fn forwarded(&self) -> Result<()> {
        let group = self.start(COUNT)?;
        let leader = group.leader()?;
        let (first, second) = ((leader + 1) % COUNT, (leader + 2) % COUNT);
        let half = |number| {
            let leaves = self.submissions(2.0 * self.seconds())?;
            anyhow::Ok(leaves.part(number, 2))
        };
        let one = self.load(&group, &self.plan(1), vec![(first, &mut half(0)?)])?;
        let before = group.accepted(second)?;
        let (mut same, mut again) = (half(1)?, half(1)?);
        let both = self.load(
            &group,
            &self.plan(1),
            vec![(first, &mut same), (second, &mut again)],
        )?;
        let leads = group.leader()?;
        ensure!(
            leads == leader,
            "expected instance {leader} to lead during the load, found instance {leads}"
        );
        let twice = (group.accepted(second)? - before) as f64;
        let sent = both.outcomes[0].new_in_all as f64;
        let (once, both_us) = (
            one.cpu_us[leader] / one.outcomes[0].new as f64,
            both.cpu_us[leader] / both.outcomes[0].new as f64,
        );
        let rows = [
            Row::new(
                "leader's CPU per entry, forwarded once",
                format!("{once:.1} µs"),
            ),
            Row::new(
                "leader's CPU per entry, forwarded by both followers",
                format!("{both_us:.1} µs"),
            ),
            Row::new(
                "of these, forwarded twice",
                format!("{:.0} %", 100.0 * twice / sent),
            ),
            Row::at_most(
                "leader's CPU per forwarded entry, without its round",
                (both_us - once) * sent / twice.max(1.0),
                "µs",
                5.0,
            ),
            Row::new("failures", failures(&both.outcomes[0])),
        ];
        print(&self.title("Forwarded entries"), &rows);
        Ok(())
    }

    /// Ends the leader repeatedly, while one of the other instances gets all submissions.
    fn takeover(&self, rounds: usize, hand_over: bool) -> Result<()> {
        let mut requests = self.submissions(rounds as f64 * self.seconds())?;
        let mut group = self.start(COUNT)?;
        let (mut silences, mut failed, mut promised) = (Vec::new(), 0, 0);
        for round in 0..rounds {
            let leader = group.leader()?;
            let endpoint = group.endpoint((leader + 1) % COUNT);
            let (mut is_over, plan) = (false, self.plan(1));
            let mut end = || -> Result<()> {
                // `mark` also runs at the end of the measured time.
                if !std::mem::replace(&mut is_over, true) {
                    let signal = [Signal::KILL, Signal::TERM][usize::from(hand_over)];
                    group.server(leader)?.signal(signal)?;
                }
                Ok(())
            };
            let outcome = load::run(endpoint, &plan, &mut requests, &mut end)?;
            println!(
                "{round}: {:.2} s without SCTs, {}; failures: {}",
                outcome.silence.as_secs_f64(),
                latencies(&outcome),
                failures(&outcome)
            );
            silences.push(outcome.silence.as_secs_f64());
            failed += outcome.failures.values().sum::<u64>();
            promised += outcome.new_in_all;
            group.server(leader)?.wait(Duration::from_secs(60))?;
            group.begin(leader)?;
        }
        let size = group.size(group.leader()?)?;
        ensure!(
            size >= promised,
            "expected an entry for each of {promised} SCTs, found {size} entries"
        );
        silences.sort_by(f64::total_cmp);
        let worst = silences.last().copied().unwrap_or_default();
        let median = silences.get(rounds / 2).copied().unwrap_or_default();
        let rows = [
            Row::new("without SCTs, median", format!("{median:.2} s")),
            Row::at_most("without SCTs, worst", worst, "s", 3.0),
            if hand_over {
                Row::at_most("failed requests", failed as f64, "", 0.0)
            } else {
                Row::new("failed requests", failed.to_string())
            },
            Row::new(
                "SCTs, and entries of the log",
                format!("{promised}, {size}"),
            ),
        ];
        let what = ["Take-over after kill -9", "Hand-over by SIGTERM"][usize::from(hand_over)];
        print(&self.title(&format!("{what}, {rounds} times")), &rows);
        Ok(())
    }
}
