//! The cost of a log as it grows: whole logs, and dedup indices alone, of any size.

mod certificates;
pub(crate) mod index;
mod kept;
mod whole;

use std::fs;

use anyhow::Result;

use crate::Common;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of entries, also as 1e6; several are columns of one table
    #[arg(long, default_values = ["1e5", "1e6"], value_parser = number)]
    size: Vec<u64>,
    /// Measure only the dedup index, with keys that no entry has
    #[arg(long)]
    index_only: bool,
    /// Measure only the rebuild of the index from the tiles, in this process, for profilers
    #[arg(long, conflicts_with = "index_only")]
    rebuild_only: bool,
    /// Duration of the submissions to each log in seconds
    #[arg(long, default_value_t = 20.0)]
    duration: f64,
    /// Remove the indices after the run, instead of keeping them for the next run
    #[arg(long)]
    remove: bool,
}

/// Figures of one size.
struct Column {
    size: u64,
    rows: Vec<(String, String)>,
}

impl Column {
    fn new(size: u64) -> Self {
        Column {
            size,
            rows: Vec::new(),
        }
    }

    fn add(&mut self, what: &str, figure: String) {
        eprintln!("{} entries: {what}: {figure}", self.size);
        self.rows.push((what.to_owned(), figure));
    }
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let folder = std::path::absolute(common.store.join("large"))?;
    fs::create_dir_all(&folder)?;
    let mut columns: Vec<Column> = Vec::new();
    for size in &options.size {
        columns.push(match (options.index_only, options.rebuild_only) {
            (true, _) => index::measure(&folder, *size, !options.remove)?,
            (_, true) => whole::read_back(common, &folder, *size)?,
            _ => whole::measure(common, options, &folder, *size)?,
        });
    }
    print(&columns);
    Ok(())
}

/// Prints a table in Markdown with a column per size.
fn print(columns: &[Column]) {
    let row = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<_> = cells.collect();
        println!("| {} |", cells.join(" | "));
    };
    let sizes = columns.iter().map(|column| column.size.to_string());
    row(&mut std::iter::once("entries".to_owned()).chain(sizes));
    row(&mut std::iter::repeat_n(
        "---".to_owned(),
        columns.len() + 1,
    ));
    let Some(first) = columns.first() else {
        return;
    };
    for (n, (what, _)) in first.rows.iter().enumerate() {
        let figures = columns.iter().map(|column| column.rows[n].1.clone());
        row(&mut std::iter::once(what.clone()).chain(figures));
    }
}

/// Parses a whole number, also as 1e6 or 3e8.
fn number(text: &str) -> Result<u64, String> {
    let problem = || format!("{text}: not a number of entries");
    let (digits, zeros) = text.split_once('e').unwrap_or((text, "0"));
    let digits: u64 = digits.parse().map_err(|_| problem())?;
    let scale = zeros
        .parse()
        .ok()
        .and_then(|zeros| 10u64.checked_pow(zeros));
    let number = scale.and_then(|scale| digits.checked_mul(scale));
    number.filter(|number| *number > 0).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn sizes_may_be_short() {
        assert_eq!(number("3e8"), Ok(300_000_000));
        assert_eq!(number("65536"), Ok(65_536));
        for bad in ["", "0", "1e", "e6", "1e30", "1.5e6", "-1"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
