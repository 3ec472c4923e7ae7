//! Time limits of tests.

use std::time::Duration;

/// Limit of tests that are not in [`LONG`].
const LIMIT: Duration = Duration::from_secs(120);

/// Tests that take long on a quiet machine, with their limits in seconds.
const LONG: &[(&str, u64)] = &[
    ("bad_disk::init_can_be_killed_at_any_moment", 400),
    ("infrastructure::every_breakage_is_called_by_its_name", 400),
    ("takeover::bucket::tesseracts_bucket_on_aws", 400),
    ("data::verify::tests::any_flipped_bit_is_noticed", 400),
    (
        "model::whatever_happens_beside_a_signer_the_invariants_hold",
        400,
    ),
    (
        "data::gzip::tests::depends_on_the_entries_and_not_on_the_rounds",
        400,
    ),
];

/// Returns the time after which a test counts as hung.
pub(super) fn limit(test: &str) -> Duration {
    let long = LONG.iter().find(|(name, _)| *name == test);
    long.map_or(LIMIT, |(_, seconds)| Duration::from_secs(*seconds))
}
