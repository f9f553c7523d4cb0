# Posts proctor.md as a comment on the pull request, or replaces the comment that it posted before.
if [ ! -f proctor.md ]; then
  echo "There is no report to post, because no suite was run." >> "$GITHUB_STEP_SUMMARY"
  exit 0
fi
marker='<!-- proctor -->'
{
  echo "$marker"
  # A comment may have 65,536 characters. If a character is cut in two, iconv drops it and fails.
  head -c 60000 proctor.md | iconv -c -f utf-8 -t utf-8 2> /dev/null || true
  printf '\n\n[Workflow run with the full report](%s)\n' "$RUN"
} > comment.md
issues="repos/$GITHUB_REPOSITORY/issues"
is_own='.user.login == "github-actions[bot]" and (.body | startswith("'"$marker"'"))'
post() {
  ids=$(gh api --paginate "$issues/$PULL_REQUEST/comments" --jq ".[] | select($is_own) | .id") || return 1
  id=$(echo "$ids" | head -n 1)
  if [ -n "$id" ]; then
    gh api --silent --method PATCH "$issues/comments/$id" -F body=@comment.md
  else
    gh api --silent --method POST "$issues/$PULL_REQUEST/comments" -F body=@comment.md
  fi
}
if ! post; then
  echo "::notice::The report is on the page of the workflow run. It was not posted, because pull requests from forks have no write access."
  echo "The report was not posted as a comment." >> "$GITHUB_STEP_SUMMARY"
fi
