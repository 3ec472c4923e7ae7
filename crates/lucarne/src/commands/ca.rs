//! `lucarne ca`: the certificate authorities that load tests issue from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lucarne_hammer::ct::Roots;

use super::failed;

/// What to do with them.
#[derive(Debug, clap::Subcommand)]
pub enum Ca {
    /// Make them: once, so that a log can be told of their roots
    ///
    /// Makes an RSA and a P-384 root, intermediates with RSA, P-256 and P-384
    /// keys, and one below a cross-signed root. What exists is kept. Keys are
    /// readable by nobody else; `roots.pem` holds certificates alone.
    New(Directory),

    /// Print the roots in PEM, to be given to a log
    Show(Directory),
}

/// Where they are.
#[derive(Debug, clap::Args)]
pub struct Directory {
    /// Their directory: what --roots of `lucarne load ct-write` names
    #[arg(value_name = "DIR", default_value = "load-ca")]
    pub directory: PathBuf,
}

/// Does it.
pub(crate) fn run(ca: &Ca) -> ExitCode {
    match ca {
        Ca::New(at) => new(&at.directory),
        Ca::Show(at) => show(&at.directory),
    }
}

fn new(directory: &Path) -> ExitCode {
    let existed = Roots::open(directory).is_ok();
    let roots = match Roots::open_or_create(directory) {
        Ok(roots) => roots,
        Err(error) => return failed(error),
    };
    let verb = if existed { "kept" } else { "made" };
    println!("{verb} {}", directory.display());
    for line in roots.describe() {
        println!("  {line}");
    }
    print!("\n{}", trust(&roots));
    ExitCode::SUCCESS
}

/// How a log comes to accept what these authorities issue.
fn trust(roots: &Roots) -> String {
    let file = roots.roots_file();
    let file = file.canonicalize().unwrap_or(file);
    let (file, directory) = (file.display(), roots.directory().display());
    format!(
        "A log must accept their roots, or it refuses everything:\n  \
           Lucarne, Sunlight  add to the log in the configuration:  extraroots: {file}\n  \
           TesseraCT          --roots_pem_file={file}\n  \
           (a log of several roots: append this file to its own)\n\n\
         Then: lucarne load ct-write --log-url URL --roots {directory}\n\n\
         Never let a log that browsers trust accept them: whoever has this directory can issue \
         for any name.\n"
    )
}

fn show(directory: &Path) -> ExitCode {
    match Roots::open(directory) {
        Ok(roots) => {
            eprint!("{}", trust(&roots));
            print!("{}", roots.roots_pem());
            ExitCode::SUCCESS
        }
        Err(error) => failed(error),
    }
}
