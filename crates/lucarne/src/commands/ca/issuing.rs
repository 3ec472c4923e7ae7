//! `lucarne ca new` and `lucarne ca show`: the authorities that issue for load tests.

use std::path::Path;
use std::process::ExitCode;

use lucarne_scenarios::ct::Roots;

use super::failed;

pub(super) fn new(directory: &Path) -> ExitCode {
    let existed = Roots::open(directory).is_ok();
    let roots = match Roots::open_or_create(directory) {
        Ok(roots) => roots,
        Err(error) => return failed(error),
    };
    let verb = if existed { "kept" } else { "created" };
    outln!("{verb} {}", directory.display());
    for line in roots.describe() {
        outln!("  {line}");
    }
    out!("\n{}", trust(&roots));
    ExitCode::SUCCESS
}

/// Explains how to configure a log so that it accepts certificates of these authorities.
fn trust(roots: &Roots) -> String {
    let file = roots.roots_file();
    let file = file.canonicalize().unwrap_or(file);
    let (file, directory) = (file.display(), roots.directory().display());
    format!(
        "A log must accept these roots, otherwise it refuses all submissions:\n  \
           Lucarne, Sunlight  add to the log in the configuration:  extraroots: {file}\n  \
           TesseraCT          --roots_pem_file={file}\n  \
           (a log with other roots: append this file to its file of roots)\n\n\
         Then: lucarne load ct-write --log-url URL --roots {directory}\n\n\
         Never let a log that browsers trust accept them: anyone with this directory can issue \
         certificates for any name.\n"
    )
}

pub(super) fn show(directory: &Path) -> ExitCode {
    match Roots::open(directory) {
        Ok(roots) => {
            err!("{}", trust(&roots));
            out!("{}", roots.roots_pem());
            ExitCode::SUCCESS
        }
        Err(error) => failed(error),
    }
}
