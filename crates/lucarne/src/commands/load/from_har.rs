//! `lucarne load from-har`: a plan from a recorded browser session.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lucarne_load::Verdict;
use lucarne_settings::read_text;
use serde::Deserialize;
use url::Url;

use super::exit_code::{exit, misconfigured};
use super::output::place;
use super::recorded::{Recorded, RecordedPlan, Variables, body, origin, quoted};

/// Options of `lucarne load from-har`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// HAR file, as browsers and proxies write it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Host whose requests become part of the plan, besides the host of the first request. May be
    /// repeated
    #[arg(long, value_name = "HOST")]
    pub include: Vec<String>,

    /// Write the plan to FILE; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Reasons why a file is not a recorded session.
#[derive(Debug, thiserror::Error)]
enum HarError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("is not a HAR file: {0}")]
    Format(#[from] serde_json::Error),
    #[error("has no `log.entries`: record the session with a browser, and export it as HAR")]
    NoEntries,
    #[error("log.entries[{index}].request.url: `{url}` is not an http or https URL")]
    Url { index: usize, url: String },
    #[error("has no request with a response of {0}: add its hosts with --include")]
    Nothing(String),
}

#[derive(Deserialize)]
struct Har {
    log: Option<Log>,
}

#[derive(Deserialize)]
struct Log {
    entries: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: String,
    #[serde(default)]
    time: f64,
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: String,
    /// Fields of a form, in place of its text.
    #[serde(default)]
    params: Vec<Param>,
}

#[derive(Deserialize)]
struct Param {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    status: i64,
    #[serde(default)]
    headers: Vec<Header>,
}

/// Header fields that the load test writes itself, or that depend on the browser's cache and
/// codings.
const LEFT_OUT: &[&str] = &[
    "host",
    "content-length",
    "connection",
    "accept-encoding",
    "if-none-match",
    "if-modified-since",
    "transfer-encoding",
    "upgrade-insecure-requests",
];

/// Shortest pause of the user that becomes `thinkTime`, in milliseconds.
const PAUSE: i64 = 500;

pub(super) fn run(options: &Options) -> ExitCode {
    let plan = match plan(&options.file, &options.include) {
        Ok(plan) => plan,
        Err(why) => return misconfigured(format_args!("{}: {why}", options.file.display())),
    };
    write(&options.output, &plan)
}

/// Writes a plan, and returns the exit code.
pub(super) fn write(output: &Path, plan: &str) -> ExitCode {
    match place(output, plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            crate::commands::failed(why);
            exit(Verdict::OutputFailed)
        }
    }
}

fn plan(file: &Path, include: &[String]) -> Result<String, HarError> {
    let har: Har = serde_json::from_str(&read_text(file)?)?;
    let entries = har.log.and_then(|log| log.entries);
    let entries = entries.filter(|entries| !entries.is_empty());
    let entries = entries.ok_or(HarError::NoEntries)?;
    let mut urls = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let url = &entry.request.url;
        let parsed = Url::parse(url).ok();
        let parsed = parsed.filter(|url| matches!(url.scheme(), "http" | "https"));
        urls.push(parsed.ok_or_else(|| HarError::Url {
            index,
            url: url.chars().take(200).collect(),
        })?);
    }
    let base = origin(&urls[0]);
    let first = urls[0].host_str().unwrap_or_default().to_owned();
    let is_own = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        host == first || include.iter().any(|other| other == host)
    };
    let sets_cookies = entries.iter().any(|entry| {
        let mut headers = entry.response.headers.iter();
        headers.any(|header| header.name.eq_ignore_ascii_case("set-cookie"))
    });
    let mut variables = Variables::default();
    let mut requests: Vec<Recorded> = Vec::new();
    let mut end = None;
    for (entry, url) in entries.iter().zip(&urls) {
        // A status below 200 means that the browser received no response.
        let status = u16::try_from(entry.response.status).unwrap_or(0);
        if !is_own(url) || status < 200 {
            continue;
        }
        let begin = entry.started_date_time.parse::<jiff::Timestamp>().ok();
        let begin = begin.map(jiff::Timestamp::as_millisecond);
        if let (Some(last), Some(end), Some(begin)) = (requests.last_mut(), end, begin)
            && begin - end >= PAUSE
        {
            last.think_ms = (begin - end) as u64;
        }
        end = begin
            .map(|begin| begin + entry.time.max(0.0) as i64)
            .max(end);
        requests.push(
            entry
                .request
                .recorded(url, &base, status, sets_cookies, &mut variables),
        );
    }
    if requests.is_empty() {
        return Err(HarError::Nothing(first));
    }
    let left_out = entries.len() - requests.len();
    if left_out > 0 {
        noteln!("left out {left_out} requests: other hosts (see --include), or no response");
    }
    let cookies = if sets_cookies { "cookies: user\n" } else { "" };
    let plan = RecordedPlan {
        executor: "executor: constant-vus\nvus: 1\nduration: 60s",
        options: &format!("baseUrl: {}\n{cookies}", quoted(&base)),
        list: "steps",
        requests,
    };
    Ok(plan.yaml(&variables))
}

impl Request {
    fn recorded(
        &self,
        url: &Url,
        base: &str,
        status: u16,
        sets_cookies: bool,
        variables: &mut Variables,
    ) -> Recorded {
        let path = variables.path(url);
        let own = origin(url);
        let headers = self.headers.iter().filter(|header| {
            let name = header.name.to_ascii_lowercase();
            let replaced = sets_cookies && name == "cookie";
            !name.starts_with(':') && !replaced && !LEFT_OUT.contains(&name.as_str())
        });
        let mut distinct: Vec<(String, String)> = Vec::new();
        for Header { name, value } in headers {
            let value = variables.header(name, value);
            let mut known = distinct.iter_mut();
            match known.find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, known)) => {
                    let is_cookie = name.eq_ignore_ascii_case("cookie");
                    known.push_str(if is_cookie { "; " } else { ", " });
                    known.push_str(&value);
                }
                None => distinct.push((name.clone(), value)),
            }
        }
        Recorded {
            name: Recorded::name_of(&self.method, url.path()),
            method: self.method.clone(),
            url: if own == base {
                path
            } else {
                format!("{own}{path}")
            },
            headers: distinct,
            body: self
                .post_data
                .as_ref()
                .and_then(|post| post.body(variables)),
            expect: vec![status],
            ..Recorded::default()
        }
    }
}

impl PostData {
    /// Returns the body for the plan; `None` if the recording lacks its text.
    fn body(&self, variables: &mut Variables) -> Option<String> {
        if !self.text.is_empty() || self.params.is_empty() {
            return Some(body(variables, &self.mime_type, &self.text));
        }
        if self.mime_type.contains("multipart") {
            noteln!(
                "left out a body of {}: the recording has only its fields",
                self.mime_type
            );
            return None;
        }
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for Param { name, value } in &self.params {
            form.append_pair(name, value);
        }
        let kind = "application/x-www-form-urlencoded";
        Some(body(variables, kind, &form.finish()))
    }
}
