//! `cargo xtask scale`: computes the entries, objects, bytes, requests and costs of a log at given
//! rates. The command prints the tables of `docs/explanation/performance.md`.

use std::fmt::Write;

/// Entries per second: all of today's certificates in one log, the same certificates with lifetimes
/// of 47 days, and ten times the second rate.
const RATES: [u32; 3] = [250, 2_500, 25_000];

/// Bytes of tiles for each entry (docs/explanation/performance.md, "Large logs": 497).
const TILE_BYTES: f64 = 497.0;
/// Bytes of the dedup index for each entry, on a local disk (measured in the same section: 44.8).
const INDEX_BYTES: f64 = 44.8;
/// CPU for each entry in microseconds, with data in a bucket
/// (docs/explanation/performance.md).
const CPU_MICROSECONDS: f64 = 60.5;
/// Seconds of a round with data in a bucket; on a disk, rounds are shorter and have no price.
const PERIOD: f64 = 1.0;
/// Rounds after which the journal is cut, with one request (docs/reference/storage.md).
const ROUNDS_PER_CUT: f64 = 16.0;
/// Entries, or hashes, of a full tile (static-ct-api).
const TILE_WIDTH: f64 = 256.0;

const DAY: f64 = 86_400.0;
/// Number of days of a month, for monthly prices.
const MONTH: f64 = 30.0;
/// Number of days of a log that accepts the certificates of half a year.
const LIFE: f64 = 182.0;

/// Prices in US dollars, without taxes, discounts and free amounts.
struct Prices {
    place: &'static str,
    /// Source and date of the prices.
    source: &'static str,
    /// Monthly price of a GiB, by tier: the tier ends at this number of bytes.
    storage: &'static [(f64, f64)],
    /// Price of 1,000 requests that write or list.
    writes: f64,
    /// Price of a GiB to the Internet, at the first tier.
    transfer: f64,
}

const EVER: f64 = f64::INFINITY;
const GIB: f64 = 1_073_741_824.0;
const TIB: f64 = 1024.0 * GIB;

/// Prices on the date of their source; check them again before you plan with them.
const PRICES: [Prices; 3] = [
    Prices {
        place: "S3",
        source: "Amazon S3 Standard, us-east-1; read 2026-11-24",
        storage: &[(50.0 * TIB, 0.023), (500.0 * TIB, 0.022), (EVER, 0.021)],
        writes: 0.005,
        transfer: 0.09,
    },
    Prices {
        place: "GCS",
        source: "Google Cloud Storage Standard, us-central1; read 2026-11-24",
        storage: &[(EVER, 0.020)],
        writes: 0.005,
        transfer: 0.12,
    },
    Prices {
        place: "one disk",
        source: "Amazon EBS gp3, us-east-1; read 2026-11-24",
        storage: &[(EVER, 0.08)],
        writes: 0.0,
        transfer: 0.09,
    },
];

/// Returns the number of requests to a store for a round of this many entries: the round, the lock,
/// the checkpoint, and each changed tile, including the newest of each kind.
fn requests_per_round(entries: f64) -> f64 {
    // Tiles of entries, of names and of hashes.
    let leaf_tiles = 3.0 * changed_tiles(entries);
    // The next level grows with each full tile of hashes.
    let full = entries / TILE_WIDTH;
    let above = full.min(1.0) + full / TILE_WIDTH;
    3.0 + leaf_tiles + above + 1.0 / ROUNDS_PER_CUT
}

/// Returns the number of tiles of one kind that a round of this many entries writes.
fn changed_tiles(entries: f64) -> f64 {
    entries / TILE_WIDTH + 1.0
}

/// Returns the number of permanent objects: tiles of entries, of names, and of hashes of all
/// levels.
fn objects(entries: f64) -> f64 {
    let tiles = entries / TILE_WIDTH;
    2.0 * tiles + tiles / (1.0 - 1.0 / TILE_WIDTH)
}

impl Prices {
    fn storage(&self, bytes: f64) -> f64 {
        let (mut from, mut dollars) = (0.0, 0.0);
        for (to, price) in self.storage {
            dollars += (bytes.min(*to) - from).max(0.0) / GIB * price;
            from = *to;
        }
        dollars
    }
}

/// Formats all tables.
pub(crate) fn tables() -> String {
    let mut text = String::from(
        "| entries/s | entries a day | entries of half a year | objects | tiles | dedup index | \
         cores |\n|---|---|---|---|---|---|---|\n",
    );
    for rate in RATES.map(f64::from) {
        let entries = rate * DAY * LIFE;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.2} |",
            whole(rate),
            whole(rate * DAY),
            rounded(entries),
            rounded(objects(entries)),
            bytes(entries * TILE_BYTES),
            bytes(entries * INDEX_BYTES),
            rate * CPU_MICROSECONDS / 1e6,
        );
    }
    text += "\n| entries/s | place | requests/s | a day | per 1,000 entries | a month: requests | \
             storage at the end | a reader of everything |\n|---|---|---|---|---|---|---|---|\n";
    for rate in RATES.map(f64::from) {
        for prices in &PRICES {
            let stored = rate * DAY * LIFE * TILE_BYTES;
            let read = rate * DAY * MONTH * TILE_BYTES / GIB * prices.transfer;
            let asked = match prices.writes {
                0.0 => ["–", "–", "–", "–"].map(str::to_owned),
                price => {
                    let each = requests_per_round(rate * PERIOD) / PERIOD;
                    [
                        format!("{each:.1}"),
                        rounded(each * DAY),
                        format!("{:.1}", 1000.0 * each / rate),
                        dollars(each * DAY * MONTH / 1000.0 * price),
                    ]
                }
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                whole(rate),
                prices.place,
                asked.join(" | "),
                dollars(prices.storage(stored)),
                dollars(read),
            );
        }
    }
    text += "\n| place | prices |\n|---|---|\n";
    for prices in &PRICES {
        let _ = writeln!(text, "| {} | {} |", prices.place, prices.source);
    }
    text
}

/// Formats a whole number with commas: 21,600,000.
fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rounds a number to three digits.
fn rounded(number: f64) -> String {
    let unit = 10f64.powf((number.log10().floor() - 2.0).max(0.0));
    whole((number / unit).round() * unit)
}

fn bytes(number: f64) -> String {
    match number {
        ..1e12 => format!("{:.0} GB", number / 1e9),
        _ => format!("{:.1} TB", number / 1e12),
    }
}

fn dollars(number: f64) -> String {
    format!("${}", whole(number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_what_the_program_prints() {
        let file = crate::root().join("docs/explanation/performance.md");
        let document = std::fs::read_to_string(file).unwrap();
        for table in tables().split("\n\n") {
            assert!(
                document.contains(table.trim_end()),
                "docs/explanation/performance.md lacks this table of `cargo xtask scale`:\n{table}"
            );
        }
    }

    /// Compares with docs/reference/storage.md: 5 and 13 requests, the former without the lock.
    #[test]
    fn the_requests_of_a_round_are_those_that_the_reference_counts() {
        let without_lock = requests_per_round(1.0) - 1.0;
        assert_eq!(whole(without_lock), "5");
        assert_eq!(whole(requests_per_round(500.0)), "13");
    }

    /// Compares with the measured requests per 1,000 entries of MinIO in
    /// docs/explanation/performance.md.
    #[test]
    fn the_requests_of_a_round_are_those_that_were_measured() {
        for (rate, period, measured) in
            [(500.0, 1.0, 27.0), (2000.0, 0.1, 49.0), (9711.0, 0.1, 19.0)]
        {
            let entries = rate * period;
            let computed = 1000.0 * requests_per_round(entries) / entries;
            let ratio: f64 = computed / measured;
            assert!(
                (0.9..1.1).contains(&ratio),
                "{computed} computed, {measured} measured"
            );
        }
    }

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!(whole(21_600_000.0), "21,600,000");
        assert_eq!(whole(999.0), "999");
        assert_eq!(rounded(3_931_234_567.0), "3,930,000,000");
        assert_eq!(rounded(45.0), "45");
        assert_eq!(
            (bytes(18.4e9), bytes(1.82e12)),
            ("18 GB".into(), "1.8 TB".into())
        );
        let s3 = PRICES[0].storage(60.0 * TIB);
        assert!(
            (s3 - 1024.0 * (50.0 * 0.023 + 10.0 * 0.022)).abs() < 1e-6,
            "{s3}"
        );
    }
}
