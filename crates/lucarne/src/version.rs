//! The version of this program, and its build (`build.rs`).

/// Version of the package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Hash of the Git commit; `unknown` for a build from an archive.
pub(crate) const COMMIT: &str = env!("LUCARNE_COMMIT");

/// Target triple.
pub(crate) const TARGET: &str = env!("LUCARNE_TARGET");

/// Text of `lucarne --version`, after the name. `-V` prints the first line.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("LUCARNE_COMMIT"),
    "\ndate: ",
    env!("LUCARNE_DATE"),
    "\nfeatures: ",
    env!("LUCARNE_FEATURES"),
    "\ntarget: ",
    env!("LUCARNE_TARGET"),
);
