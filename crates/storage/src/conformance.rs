//! The conformance suite: tests that every back end must pass, and a simulation of a power failure
//! for directories.
//!
//! A back end implements [`AssetsBackend`] or [`LockBackend`] in its tests and calls one macro:
//!
//! ```ignore
//! lucarne_storage::assets_conformance!(Posix::new());
//! lucarne_storage::lock_conformance!(Sqlite::new().await);
//! ```
//!
//! Each case becomes a `#[tokio::test]` with a back end of its own.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod assets;
pub mod lock;
mod power;

use async_trait::async_trait;

use crate::{Assets, Lock};

pub use power::{Fate, PowerLoss};

/// Returns the configuration of a test server that speaks S3 without TLS.
#[cfg(feature = "object-stores")]
pub fn s3_config(
    endpoint: &str,
    region: &str,
    [access_key, secret_key]: [&str; 2],
    bucket: &str,
    prefix: &str,
) -> crate::ObjectStoreConfig {
    use crate::object::{Bucket, ObjectStoreConfig, S3, S3Keys};
    let s3 = S3 {
        region: Some(region.into()),
        bucket: bucket.into(),
        endpoint: Some(endpoint.into()),
        allow_http: true,
        keys: Some(S3Keys {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
        }),
        ..S3::default()
    };
    ObjectStoreConfig::new(Bucket::S3(s3), prefix)
}

/// An empty location for assets.
#[async_trait]
pub trait AssetsBackend: Send + Sync {
    /// Opens the location. A second call, after everything opened before has been dropped, stands
    /// for a restarted process: the stored files are still there.
    async fn open(&self) -> Box<dyn Assets>;
}

/// An empty lock.
#[async_trait]
pub trait LockBackend: Send + Sync {
    /// Opens the lock. Several may be open at once, as in several processes.
    async fn open(&self) -> Box<dyn Lock>;
}

/// Generates one test for each case for assets. The expression evaluates to an empty
/// [`AssetsBackend`] and may await.
#[macro_export]
macro_rules! assets_conformance {
    ($backend:expr) => {
        $crate::conformance_tests! { assets, $backend,
            staged_records_read_back_in_order
            staged_records_are_seen_beside_rounds
            nothing_is_staged_at_first
            staged_records_survive_reopening
            records_of_any_length_read_back
            a_record_may_be_staged_again_with_a_smaller_size
            settling_drops_what_is_settled_and_nothing_else
            settling_an_idle_log_is_harmless
            settling_runs_beside_rounds
            published_files_read_back
            publishing_replaces
            only_the_present_checkpoint_is_amended
            an_absent_file_is_none
            bytes_are_stored_as_given
            paths_outside_are_refused
            one_bad_path_publishes_nothing
            partials_are_listed_in_order
            a_directory_of_tiles_is_listed
            partials_of_full_tiles_are_removed
            a_removed_partial_can_be_published_again
            many_files_at_once
            private_files_are_replaced_bounded_and_not_public
            statistics_count
        }
    };
}

/// Generates one test for each case for locks. The expression evaluates to an empty [`LockBackend`]
/// and may await.
#[macro_export]
macro_rules! lock_conformance {
    ($backend:expr) => {
        $crate::conformance_tests! { lock, $backend,
            an_unknown_log_is_none
            a_created_log_is_loaded_as_it_was
            a_log_is_created_once
            logs_do_not_mix
            replacing_needs_the_old_checkpoint
            replacing_an_unknown_log_conflicts
            a_conflict_changes_nothing
            any_bytes_are_kept
            a_replacement_is_seen_by_others
            one_of_fifty_wins_each_step
            many_logs_share_a_lock
            checking_changes_nothing
            a_lease_is_taken_once
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($module:ident, $backend:expr, $($case:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let backend = $backend;
            $crate::conformance::$module::$case(&backend).await;
        }
    )* };
}
