use std::{
    fs,
    path::{Path, PathBuf},
    sync::Once,
};

use anyhow::{Context, Result, ensure};
use lucarne_mint::{Chain, pem};

/// The corpus of real certificates, if this machine has it: `$LUCARNE_CORPUS`,
/// or `../shared/corpus` beside the workspace. Where there is none, a test says
/// so (this function prints one line per process) and passes.
pub fn corpus() -> Option<Corpus> {
    static SAID: Once = Once::new();
    let root = std::env::var_os("LUCARNE_CORPUS").map_or_else(beside_workspace, PathBuf::from);
    if root.join("index.tsv").is_file() {
        return Some(Corpus { root });
    }
    SAID.call_once(|| {
        let root = root.display();
        eprintln!("skipped: no corpus at {root} (set LUCARNE_CORPUS)");
    });
    None
}

fn beside_workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus")
}

/// Public certificates and chains with the verdict that each deserves.
#[derive(Clone, Debug)]
pub struct Corpus {
    root: PathBuf,
}

/// One line of `index.tsv`.
#[derive(Clone, Debug)]
pub struct Case {
    /// PEM file, relative to the corpus.
    pub file: String,
    /// `add-chain` or `add-pre-chain`.
    pub endpoint: String,
    /// The file under `roots/` (without `.pem`) with the log's only roots.
    pub roots: String,
    /// `true` if a log that demands nothing more than RFC 6962 accepts it.
    pub accept: bool,
    /// `true` if the leaf has the serverAuth usage (or none at all): if not, a
    /// log that demands it may refuse.
    pub server_auth: bool,
    /// The reason.
    pub why: String,
}

impl Corpus {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// All cases.
    ///
    /// # Errors
    /// An index that is not as described.
    pub fn cases(&self) -> Result<Vec<Case>> {
        let text = self.text("index.tsv")?;
        text.lines().skip(1).map(case).collect()
    }

    /// A root set, as PEM.
    ///
    /// # Errors
    /// No such file.
    pub fn roots_pem(&self, name: &str) -> Result<String> {
        self.text(&format!("roots/{name}.pem"))
    }

    /// A case's chain, in submission order.
    ///
    /// # Errors
    /// No such file, or not PEM.
    pub fn chain(&self, case: &Case) -> Result<Chain> {
        let blocks = pem::decode(&self.text(&case.file)?).context(case.file.clone())?;
        Ok(Chain::new(blocks.into_iter().map(|(_, der)| der).collect()))
    }

    fn text(&self, file: &str) -> Result<String> {
        let path = self.root.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn case(line: &str) -> Result<Case> {
    let columns: Vec<&str> = line.split('\t').collect();
    ensure!(
        columns.len() >= 8,
        "index.tsv: {} columns in: {line}",
        columns.len()
    );
    Ok(Case {
        file: columns[0].to_owned(),
        endpoint: columns[1].to_owned(),
        roots: columns[2].to_owned(),
        accept: columns[3] == "accept",
        server_auth: columns[4] == "yes",
        why: columns.get(8).unwrap_or(&"").to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_files() {
        let Some(corpus) = corpus() else { return };
        let cases = corpus.cases().unwrap();
        assert!(cases.iter().any(|case| case.accept) && cases.iter().any(|case| !case.accept));
        for case in cases {
            assert!(
                ["add-chain", "add-pre-chain"].contains(&&*case.endpoint),
                "{case:?}"
            );
            assert!(!corpus.chain(&case).unwrap().certificates().is_empty() || !case.accept);
            corpus.roots_pem(&case.roots).unwrap();
        }
    }
}
