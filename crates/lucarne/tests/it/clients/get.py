"""Requests each URL of the command line in one session, and prints status and body."""

import sys

import requests

with requests.Session() as session:
    for url in sys.argv[1:]:
        answer = session.get(url, timeout=30)
        print(answer.status_code, answer.text)
