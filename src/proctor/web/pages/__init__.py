"""The pages, one file each, named as in the navigation.

In: a request. Out: HTML from a template of `web/templates/`. `proctor.web.app` has the table of pages.
"""
