//! An ordinary day: the cost of an entry at a small part of the highest rate, compared with another
//! binary.

use std::path::{Path, PathBuf};

use anyhow::Result;
use lucarne_testkit::Place;

use crate::Common;
use crate::add_chain::{self, Bench, Figures, Run};
use crate::chains::Issuer;
use crate::load::Arrivals;
use crate::table::{Row, millis, print};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Another binary, measured in turn
    #[arg(long, value_name = "BINARY")]
    than: Option<PathBuf>,
    /// Submissions per second
    #[arg(long, value_delimiter = ',', default_values_t = [250.0, 500.0, 2000.0])]
    rates: Vec<f64>,
    /// Keep-alive connections
    #[arg(long, value_delimiter = ',', default_values_t = [20, 1000])]
    connections: Vec<usize>,
    /// Measured seconds per run
    #[arg(long, default_value_t = 8.0)]
    duration: f64,
    /// The log's period in milliseconds
    #[arg(long, default_value_t = 40)]
    period: u64,
    /// How often each is measured, in turn; of CPU the least counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// The cost of an entry under the conditions of one line.
struct Cost {
    cpu_us: f64,
    p50: f64,
    p99: f64,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let binaries: Vec<&PathBuf> = std::iter::once(&common.binary)
        .chain(&options.than)
        .collect();
    for https in [false, true] {
        let mut rows = Vec::new();
        for &connections in &options.connections {
            for &rate in &options.rates {
                let mut costs: Vec<Vec<Cost>> = binaries.iter().map(|_| Vec::new()).collect();
                for _ in 0..options.rounds {
                    for (binary, costs) in binaries.iter().zip(&mut costs) {
                        costs.push(measure(
                            common,
                            options,
                            binary,
                            (https, connections, rate),
                        )?);
                    }
                }
                let what = format!("{rate:.0}/s, {connections} connections");
                rows.push(Row::new(what, figure(&costs)));
            }
        }
        let scheme = if https { "HTTPS" } else { "HTTP" };
        let title = format!(
            "{scheme}, RSA-2048 issuer, period {} ms, 10 % duplicates: CPU per new entry, the least of {}",
            options.period, options.rounds
        );
        print(&title, &rows);
    }
    Ok(())
}

fn measure(
    common: &Common,
    options: &Options,
    binary: &Path,
    (https, connections, rate): (bool, usize, f64),
) -> Result<Cost> {
    let common = Common {
        binary: binary.to_owned(),
        ..common.clone()
    };
    let conditions = add_chain::Options::with(connections, options.duration, options.period);
    let conditions = conditions.over_tls(https);
    let bench = Bench::new(&common, &conditions)?;
    let figures: Figures = bench.run(&Run {
        issuer: Issuer::Rsa,
        arrivals: Arrivals::Open(rate),
        period: options.period,
        syncs: false,
        place: Place::directory(),
    })?;
    Ok(Cost {
        cpu_us: figures.cpu_us(),
        p50: millis(&figures.outcome, 50.0),
        p99: millis(&figures.outcome, 99.0),
    })
}

/// "151.2 µs, p50 22.1 p99 44.0 ms; the other 180.3 µs: 0.84".
fn figure(costs: &[Vec<Cost>]) -> String {
    let least = |costs: &[Cost]| {
        costs
            .iter()
            .map(|cost| cost.cpu_us)
            .fold(f64::MAX, f64::min)
    };
    let median = |of: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs[0].iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let cpu = least(&costs[0]);
    let (p50, p99) = (median(|cost| cost.p50), median(|cost| cost.p99));
    let ours = format!("{cpu:.1} µs, p50 {p50:.1} p99 {p99:.1} ms");
    match costs.get(1) {
        None => ours,
        Some(other) => {
            let other = least(other);
            format!("{ours}; the other {other:.1} µs: {:.2}", cpu / other)
        }
    }
}
