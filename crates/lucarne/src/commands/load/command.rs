//! Command line for reports, without secrets.

use lucarne_net::without_secrets;

/// Words in the names of flags whose values stay out of reports. Headers carry tokens, and bodies
/// carry credentials.
const SECRETS: &[&str] = &[
    "secret", "password", "token", "session", "header", "body", "json",
];

/// Returns the arguments of this process without secrets.
pub(super) fn line() -> Vec<String> {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    redact(arguments.collect())
}

fn redact(arguments: Vec<String>) -> Vec<String> {
    let mut secret = false;
    let shown = arguments.into_iter().map(|argument| {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (argument.as_str(), None),
        };
        let names_secret = flag == "-H"
            || flag.starts_with("--") && SECRETS.iter().any(|word| flag.contains(word));
        let after_secret = std::mem::replace(&mut secret, names_secret && value.is_none());
        match (after_secret, names_secret, value) {
            (true, false, _) => "…".to_owned(),
            (_, true, Some(_)) => format!("{flag}=…"),
            _ if argument.starts_with("-H") && argument.len() > 2 => "-H…".to_owned(),
            _ => without_secrets(&argument),
        }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        let line = "lucarne load s3 --secret-key hush --session-token=hush --endpoint \
                    http://me:hush@s3.example/x --access-key id -H hush -Hhush --header=hush --body hush";
        let shown = redact(line.split_whitespace().map(str::to_owned).collect()).join(" ");
        assert_eq!(
            shown,
            "lucarne load s3 --secret-key … --session-token=… --endpoint http://me:***@s3.example/x \
             --access-key id -H … -H… --header=… --body …"
        );
    }
}
