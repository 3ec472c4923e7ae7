//! The version of this program, and its build (`build.rs`).

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
