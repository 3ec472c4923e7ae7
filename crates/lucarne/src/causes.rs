//! An error with its causes, in one line.

/// Formats an error with its causes. A cause whose text the error already contains is omitted.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{path}: {source}")]
    struct Failed {
        path: &'static str,
        source: std::io::Error,
    }

    #[test]
    fn each_cause_is_there_once() {
        let failed = || Failed {
            path: "/a",
            source: std::io::ErrorKind::PermissionDenied.into(),
        };
        let error = Err::<(), _>(failed()).context("cannot open").unwrap_err();
        assert_eq!(causes(&error), "cannot open: /a: permission denied");
        assert_eq!(causes(&failed().into()), "/a: permission denied");
    }
}
