"""A campaign as one HTML page that opens anywhere: what an architect takes to the meeting.

Python decides what is shown and works out every number; ``static/`` draws it in the browser.
"""
